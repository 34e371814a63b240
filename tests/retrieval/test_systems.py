"""BM25, VSS, Multi-VSS and graph-rank against scores worked out by hand on nine nodes."""

import json
import math
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import CredentialsError, ServiceError, UsageError
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.maintenance import check, update
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.base import attempt, build_retriever
from kbnav.retrieval.documents import published_chunks
from kbnav.retrieval.expansion import Rerank, RerankOptions, parse_score
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.models.stub import ModelStub, completion, failure, served
from tests.retrieval.conftest import QUERY, CountingEncoder, KeywordEncoder, Listening, Script


def scores(kb: SkbKB, name: str, query: str, home: Path, k: int = 9, **options: object) -> dict[str, float]:
    ranking = build_retriever(name, kb, Settings(home=home), options).retrieve(query, k)
    assert [node.score for node in ranking.nodes] == sorted((node.score for node in ranking.nodes), reverse=True)
    return {node.id: node.score for node in ranking.nodes}


def test_vss_ranks_by_the_cosine_with_documents(related, tmp_path):
    found = scores(related, "vss", QUERY, tmp_path, k=6, relations="false")
    wanted = {"lark": 1, "bob": 4 / 20**0.5, "crow": 2 / 6**0.5, "wren": 0.5**0.5, "finch": 0.5, "lark-town": 6**-0.5}
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_documents_with_relations_bring_what_neighbours_are_called(related, tmp_path):
    found = scores(related, "vss", QUERY, tmp_path)
    # Bob mended the Storm Crow: storm twice, letter three times. Ann made it: storm once, beside her salt.
    assert found["bob"] == pytest.approx(5 / 26**0.5, abs=1e-5)
    assert found["ann"] == pytest.approx(0.5, abs=1e-5)
    assert found["lark"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("relations", "found"), [("true", {"mew", "ann", "bob"}), ("false", {"mew"})])
def test_bm25_finds_the_words_of_relations_only_where_they_are_indexed(related, tmp_path, relations, found):
    assert set(scores(related, "bm25", "Mew", tmp_path, relations=relations)) == found


def test_bm25_counts_a_name_as_a_part_of_the_document_unless_told_otherwise(related, tmp_path):
    as_published = scores(related, "bm25", "Mew letter", tmp_path, relations=False)
    doubled = scores(related, "bm25", "Mew letter", tmp_path, relations=False, name_weight="2")
    assert {name: doubled[name] for name in doubled if name != "mew"} == {
        name: as_published[name] for name in as_published if name != "mew"
    }
    # Of nine names with twelve words one is "Mew", a single word.
    rarity, saturation = math.log(1 + 8.5 / 1.5), 2.2 / (1 + 1.2 * (0.25 + 0.75 * 1 / (12 / 9)))
    assert doubled["mew"] - as_published["mew"] == pytest.approx(2 * rarity * saturation, rel=1e-4)


def test_only_candidates_are_ranked(related, tmp_path):
    for name in ("bm25", "vss", "multi-vss", "graph-rank"):
        found = scores(related, name, QUERY, tmp_path, candidates="town, guitar")
        assert found
        assert {related.skb.type(related.skb.number(node)) for node in found} <= {"town", "guitar"}, name
    with pytest.raises(UsageError, match="there is no node type 'boat'"):
        build_retriever("bm25", related, Settings(home=tmp_path), {"candidates": "boat"})


@pytest.mark.parametrize(
    ("aggregate", "wanted"),
    [
        # The chunk of Bob's text has 4/√20, that of his relations (the Storm Crow) 1/√2; Lark's have 1 and 0.
        ("max", {"lark": 1.0, "bob": 4 / 20**0.5, "crow": 2 / 6**0.5}),
        ("mean", {"bob": (4 / 20**0.5 + 0.5**0.5) / 2, "lark": 0.5, "crow": 1 / 6**0.5}),
    ],
)
def test_multi_vss_puts_the_cosines_of_chunks_together(related, tmp_path, aggregate, wanted):
    found = scores(related, "multi-vss", QUERY, tmp_path, k=3, aggregate=aggregate, relations="false")
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_published_chunks_are_those_of_the_splitter_that_stark_uses(related, tmp_path):
    # As RecursiveCharacterTextSplitter of langchain_text_splitters 1.1.3 cuts them, with an overlap of a fifth.
    text = (
        "Lark is a guitar by Ann Reed, in which a letter from the storm lies; "
        "uncharacteristically, it was never opened."
    )
    assert list(published_chunks(text, 40)) == [
        "Lark is a guitar by Ann Reed, in which a",
        "which a letter from the storm lies;",
        "lies; uncharacteristically, it was",
        "it was never opened.",
    ]
    long = ["rm lies;", "uncharacter", "eristically,", "it was", "never", "opened."]
    assert list(published_chunks(text[60:], 12)) == long
    # Text and relations are one chunk: that of Bob has letter four times, and storm twice with the Storm Crow.
    found = scores(related, "multi-vss", QUERY, tmp_path, k=3, relations="false", chunks="published")
    assert found["bob"] == pytest.approx(5 / 26**0.5, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("prf", {"stages": {"nosuch": {"x": "1"}}}, "prf is not made of 'nosuch'.*of: vss"),
        ("prf", {"stages": {"hyde": {"samples": "9"}}}, "prf is not made of 'hyde'"),
        (
            "rerank",
            {"first": "vss", "stages": {"bm25": {"relations": "true"}}},
            "rerank is not made of 'bm25'.*of: vss",
        ),
        ("prf", {"base": "bm25", "stages": {"vss": {"relations": "true"}}}, "prf is not made of 'vss'.*of: bm25"),
        ("prf", {"base": "bm25", "stages": {"bm25": {"x": "1"}}}, "bm25 has no option 'x'"),
        ("prf", {"initial": "0"}, "prf: initial"),
    ],
)
def test_options_that_would_do_nothing_or_make_no_sense_are_refused(related, tmp_path, name, options, said):
    with pytest.raises(UsageError, match=said):
        build_retriever(name, related, Settings(home=tmp_path), options)


GRAPH_ONLY = {"text_weight": 0, "query_weight": 0}


def test_graph_rank_adds_up_what_is_reached_from_each_name(related, tmp_path):
    found = scores(
        related, "graph-rank", "Which guitar was made by Ann Reed and mended by Bob Reed?", tmp_path, **GRAPH_ONLY
    )
    # Both relations are named in full: the crow is at the end of both best paths, Lark and Wren of Ann's alone.
    assert found["crow"] == pytest.approx(1.0)
    assert found["wren"] == pytest.approx(found["lark"])
    assert 0.5 <= found["lark"] < 0.6  # and a little for paths of two relations that Bob's name leads along
    assert set(found) <= {"crow", "lark", "wren", "finch"}


def test_text_decides_among_the_nodes_that_are_reached(related, tmp_path):
    found = list(scores(related, "graph-rank", "Which guitar made by Ann Reed was lost?", tmp_path))
    assert found[0] == "wren"
    assert set(found[:3]) == {"lark", "crow", "wren"}  # made by Ann


@pytest.mark.parametrize("error", [ServiceError("down"), KeyboardInterrupt()])
def test_a_step_that_raises_is_recorded_as_failed_and_the_error_goes_on(error):
    def look() -> None:
        with trace.step("look", limit=3) as seen:
            seen.text, seen.nodes = "the first half", ["a"]
            raise error

    trace = Trace()
    with pytest.raises(type(error)):
        look()
    with trace.step("look"):
        pass
    failed, well = trace.steps
    assert (failed.ok, failed.observation, failed.nodes) == (False, "the first half", ("a",))
    assert well.ok


def test_an_update_embeds_anew_the_documents_of_both_ends_of_a_new_edge(related_path, tmp_path):
    skb_path = tmp_path / "copy.skb"
    shutil.copytree(related_path, skb_path)
    (tmp_path / "e.jsonl").write_text(json.dumps({"source": "wren", "relation": "mended by", "target": "bob"}))
    encoder = CountingEncoder()
    options = Options(encoder=encoder, sparql=False, relations=True)
    update(skb_path, TableSource([], [tmp_path / "e.jsonl"]), options)
    assert check(skb_path) == []
    texts = [text for batch in encoder.asked for text in batch]
    assert len(texts) == 2
    assert all("mended_by" in text for text in texts)
    with SKB.open(skb_path, KeywordEncoder()) as skb:
        found = [skb.id(node) for node, _ in skb.relational_text.search("Wren", limit=9)]
        assert set(found) == {"wren", "ann", "bob"}
        assert found[0] == "wren"


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("1", 1.0),
        ("0.85.", 0.85),
        (".5", 0.5),
        ("0,75", 0.75),
        ("Score: 0.7 because it meets 3 of the 4 requirements", 0.7),
        ('{"score": 0.35, "why": "2 of 3"}', 0.35),
        ("7/10", 0.7),
        ("7 out of 10", 0.7),
        ("70 %", 0.7),
        ("7", None),
        ("-0.5", None),
        ("Score: 1.2", None),
        ("1,000", None),
        ("between 0 and 1", None),
        ("it meets 2 of 3 requirements", None),
        ("1. It is a guitar.\n2. Its text does not speak of a storm.\n3. Ann made it.", None),
        ("The score for the kind is 1, that for the text is 0.2. Final score: 0.6", 0.6),
        ("0.5-0.6", None),
        ("<think>A 0.5, B 0.3</think>\n0.8", 0.8),
        ("<think>The score is 0.5", None),
        ("Requirement A 0.5 and B 0.4.\n\n0.45", 0.45),
        ("", None),
    ],
)
def test_scores_are_read_from_all_kinds_of_replies(reply, score):
    assert parse_score(reply) == pytest.approx(score) if score is not None else parse_score(reply) is None


@given(st.text() | st.from_regex(r"[-+.,/%0-9e ]{0,20}"))
def test_whatever_is_read_lies_between_0_and_1(reply):
    score = parse_score(reply)
    assert score is None or 0.0 <= score <= 1.0


def test_scores_and_ranks_are_put_together(related):
    script = Script("0.2", "0.9", "0.9")
    first, trace = Listening("lark", "wren", "crow", "finch", "mew"), Trace()
    hits = Rerank(related.skb, first, script.calls, RerankOptions(top_v=3)).retrieve(QUERY, 5, trace)
    assert hits.ids == ["wren", "crow", "lark", "finch", "mew"]
    # The ranks add a tenth of 3/3, 2/3 and 1/3; what was not scored goes down from the lowest by 1 each.
    wanted = [0.9 + 0.2 / 3, 0.9 + 0.1 / 3, 0.2 + 0.1, 0.3 - 1, 0.3 - 2]
    assert [node.score for node in hits.nodes] == pytest.approx(wanted, abs=1e-6)
    assert first.asked == [(QUERY, 5)]
    assert trace.usage.calls == 3


def test_the_model_sees_which_way_a_relation_goes_and_so_many_neighbours_as_told(related):
    script = Script("1")
    Rerank(related.skb, Listening("ann"), script.calls, RerankOptions(neighbors=2)).retrieve(QUERY, 1)
    assert (
        " relations: ←made by— Lark, Wren (guitar). ←owned by— Lark (guitar). —born in→ Mew (town)."
        " —learned from→ Bob Reed (person).\n"
    ) in script.prompts[0]
    assert '"←relation— X" that X has it to the entry' in script.prompts[0]


def test_where_no_score_can_be_read_the_order_stays_and_the_step_has_failed(related):
    script, trace = Script("I cannot tell.", "Perhaps.", ""), Trace()
    hits = Rerank(related.skb, Listening("lark", "wren", "crow"), script.calls, RerankOptions()).retrieve("?", 3, trace)
    assert hits.ids == ["lark", "wren", "crow"]
    assert not trace.steps[-1].ok


def test_a_call_that_fails_costs_one_candidate(related, tmp_path):
    with ModelStub([completion("0.1"), failure(500, "down"), completion("0.3")]) as stub:
        settings = served(stub, tmp_path)
        system = build_retriever("rerank", related, settings, {"top_v": 3})
        run, problem = attempt(system, related, settings, QUERY, k=3)
    assert problem is None
    assert len(stub.requests) == 3
    assert [step.ok for step in run.path if step.call.tool == "model"] == [True, False, True]
    assert (run.usage.calls, run.usage.prompt, run.usage.completion) == (2, 200, 40)
    first, failed, last = run.path[0].nodes[:3]
    assert run.outcome.ranking.ids == [last, first, failed]


@pytest.mark.parametrize(("status", "kind"), [(500, ServiceError), (401, CredentialsError)])
def test_where_no_call_can_go_well_the_run_fails_with_its_steps(related, tmp_path, status, kind):
    with ModelStub([failure(status, "no")]) as stub:
        settings = served(stub, tmp_path)
        run, problem = attempt(build_retriever("rerank", related, settings, {}), related, settings, QUERY)
    assert isinstance(problem, kind)
    assert run.outcome.status == "failed"
    assert run.path[0].call.tool == "vss"
    if status == 401:
        assert len(stub.requests) <= 2  # the others are not even sent
