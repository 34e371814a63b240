"""KAR step by step, on nine nodes whose similarities are worked out by hand (see conftest)."""

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import CredentialsError, ServiceError, Stopped, UsageError
from kbnav.evaluation.evaluate import leave_out
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.skb.graph import Graph, NodeNumbers, write_graph
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls
from kbnav.retrieval.base import build_retriever
from kbnav.retrieval.expansion import (
    AGR,
    PRF,
    RAR,
    Entity,
    FeedbackOptions,
    HyDE,
    PRFOptions,
    SampledOptions,
    document,
    entities,
    structures,
)
from kbnav.retrieval.kar import KAR, KAROptions, Meaning, Scorer, Scores, Surroundings, Words, similarity_for
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from tests.data import EDGES
from tests.knowledge.skb.sources import small_skb
from tests.models.stub import Faltering
from tests.retrieval.conftest import QUERY, Listening, Script

NAMES_ANN = '[{"person": {"name": "Ann Reed"}}]'
ANN = "name: Ann Reed. type: person. born: 1701. description: Smelled of salt."
BOB = "name: Bob Reed. type: person. description: Wrote letter after letter after letter on the storm."


def kar(skb: SKB, script: Script, base: Listening | None = None, **options: object) -> KAR:
    paper = {"neighbours": 2, "paths": "plain", "with_neighbours": False}
    return KAR(skb, base or Listening("wren"), script.calls, KAROptions(**{**paper, **options}))  # type: ignore[arg-type]


def documents(prompt: str) -> list[str]:
    return prompt.partition("<documents>\n")[2].partition("</documents>")[0].splitlines()


def test_every_step_is_as_worked_out_by_hand(skb, said):
    script, base, trace = Script(NAMES_ANN, "one", "two", "three"), Listening("wren", "finch"), Trace()
    kar(skb, script, base).retrieve(QUERY, 5, trace)
    parse, *generate = script.prompts
    named = STRUCTURES.replace("person:", "person (such as Ann Reed; Bob Reed):")
    named = named.replace("guitar:", "guitar (such as Lark; Wren; Finch):")
    assert named.replace("town:", "town (such as Mew; Lark; Nowhere):") in parse
    assert parse.endswith(f"Query: {QUERY}\nEntities:")
    assert said(trace, "entities") == ["Ann Reed (person)"]
    assert said(trace, "linked_nodes") == [
        "the query itself → Wren (wren) by document\nAnn Reed → Ann Reed (ann) by name"
    ]
    # Of Wren's five neighbours and Ann's six, Lark (1) and Bob (4/√20) fit best.
    assert said(trace, "document_triples") == [
        "Wren (wren): 2 of 5 neighbours\n"
        "  1.0000 —made by→ Ann Reed (person) ←made by, owned by— Lark (lark)\n"
        "  0.8944 —made by→ Ann Reed (person) —learned from→ Bob Reed (bob)\n"
        "Ann Reed (ann): 2 of 6 neighbours\n"
        "  1.0000 ←made by, owned by— Lark (lark)\n"
        "  0.8944 —learned from→ Bob Reed (bob)"
    ]
    assert len(generate) == 3
    assert set(generate) == {generate[0]}
    assert documents(generate[0]) == [
        f"Found for the query itself: [1] {WREN}",
        f"  —made by→ Ann Reed (person) ←made by, owned by— [2] {LARK}",
        f"  —made by→ Ann Reed (person) —learned from→ [3] {BOB}",
        f"Found for Ann Reed: [4] {ANN}",
        "  ←made by, owned by— [2] Lark",
        "  —learned from→ [3] Bob Reed",
    ]
    assert base.asked == [(QUERY, 1), (f"{QUERY}\none\ntwo\nthree", 5)]
    assert trace.usage.calls == 4
    assert trace.steps[-2].observation == f"{QUERY}\none\ntwo\nthree"


def test_by_default_ten_neighbours_within_two_hops_are_kept_of_each_node(tmp_path):
    """A town with eleven around it, and one behind each of these."""
    around = [f"t{number}" for number in range(11)]
    edges = [*(("hub", "beside", town) for town in around), *((town, "beside", f"far-{town}") for town in around)]
    names = ["hub", *around, *(f"far-{town}" for town in around)]
    trace = Trace()
    with small_skb(tmp_path, [{"id": id, "type": "town", "name": id} for id in names], edges) as towns:
        system = build_retriever("kar", SkbKB(towns), Settings(model="offline"), {"base": "bm25"})
        system.retrieve('"hub"', 3, trace)
    told = next(step for step in trace.steps if step.call.tool == "document_triples")
    assert told.observation.splitlines()[0] == "hub (hub): 10 of 22 neighbours"
    assert len(told.nodes) == 10


def test_so_many_documents_are_written_as_told(skb):
    for samples in (1, 5):
        script = Script("[]", *map(str, range(samples)))
        found = kar(skb, script, samples=samples, temperature=1.3).expand(QUERY, Trace())
        assert found == [str(number) for number in range(samples)]


@pytest.mark.parametrize(
    ("entity", "node", "how"),
    [
        ({"guitar": {"name": "lark"}}, "lark", "name"),  # the town of that name is of another type
        ({"thing": {"name": "Lark", "about": "salt and wood"}}, "lark-town", "name"),  # 2/√6 against 0
        ({"thing": {"name": "Lark", "about": "a letter"}}, "lark", "name"),  # 1/√2 against 0
        ({"thing": {"name": "Lark"}}, "lark", "name"),  # nothing to tell them apart by: the first
        ({"person": {"name": "Lark"}}, "lark", "name"),  # no person of that name
        ({"person": {"name": "the smith", "about": "letters"}}, "bob", "document"),  # 3/√10 against 0
        ({"thing": {"name": "the salt one"}}, "ann", "document"),  # 1 against 1/√3
    ],
)
def test_entities_are_linked_by_name_and_else_by_their_documents(skb, said, entity, node, how):
    script, trace = Script(json.dumps([entity])), Trace()
    kar(skb, script, Listening()).expand(QUERY, trace)
    name = next(iter(entity.values()))["name"]
    label = skb.name(skb.number(node))
    assert said(trace, "linked_nodes") == [f"{name} → {label} ({node}) by {how}"]


def test_linking_by_documents_alone_looks_at_no_names(skb, said):
    script, trace = Script('[{"person": {"name": "Ann Reed", "about": "letters"}}]'), Trace()
    kar(skb, script, Listening(), linking="documents").expand(QUERY, trace)
    assert said(trace, "linked_nodes") == ["Ann Reed → Bob Reed (bob) by document"]
    # Bob's document is nearest, and that he is no guitar does not count.
    script, trace = Script('[{"guitar": {"name": "the smith", "about": "letters"}}]'), Trace()
    kar(skb, script, Listening(), linking="documents").expand(QUERY, trace)
    assert said(trace, "linked_nodes") == ["the smith → Bob Reed (bob) by document"]


@pytest.mark.parametrize("reply", ["", "[]", "I see no entities here.", '{"person": '])
def test_where_no_entity_can_be_read_the_query_stands_alone(skb, said, reply):
    script, trace = Script(reply, "one"), Trace()
    assert kar(skb, script).expand(QUERY, trace) == ["one"]
    assert said(trace, "entities") == ["none could be read from the reply"]
    assert said(trace, "linked_nodes") == ["the query itself → Wren (wren) by document"]


def test_without_the_graph_the_documents_stay_and_only_the_links_go(skb, said):
    whole, less = Script(NAMES_ANN, "one"), Script(NAMES_ANN, "one")
    traces = Trace(), Trace()
    kar(skb, whole).expand(QUERY, traces[0])
    kar(skb, less, without=("kg",)).expand(QUERY, traces[1])
    assert whole.prompts[0] == less.prompts[0]
    assert said(traces[0], "linked_nodes") == said(traces[1], "linked_nodes")
    assert said(traces[1], "document_triples") == []
    assert documents(less.prompts[1]) == [f"Found for the query itself: [1] {WREN}", f"Found for Ann Reed: [2] {ANN}"]
    assert "→" in whole.prompts[1]
    assert "→" not in less.prompts[1]


def test_without_document_based_filtering_names_choose_the_neighbours(skb, said):
    script, trace = Script(NAMES_ANN, "one"), Trace()
    kar(skb, script, Listening("finch"), without=("drf",)).expand(QUERY, trace)
    # Of all names only Storm Crow's is like the query, by 1/√2; its document, at 2/√6, is third.
    assert said(trace, "document_triples") == [
        "Finch (finch): 2 of 4 neighbours\n"
        "  0.7071 —made by→ Bob Reed (person) ←mended by— Storm Crow (crow)\n"
        "  0.0000 —made by→ Bob Reed (bob)\n"
        "Ann Reed (ann): 2 of 6 neighbours\n"
        "  0.7071 ←made by— Storm Crow (crow)\n"
        "  0.0000 —learned from→ Bob Reed (bob)"
    ]


def test_what_was_cut_behind_a_hub_is_told(skb, said):
    trace = Trace()
    kar(skb, Script("[]"), Listening("wren"), edges=4, neighbours=1).expand(QUERY, trace)
    assert "of 5 neighbours\n" in said(trace, "document_triples")[0]  # one node, Ann, is followed whatever it has
    trace = Trace()
    kar(skb, Script("[]"), Listening("mew"), edges=4, neighbours=9).expand(QUERY, trace)
    told = said(trace, "document_triples")[0].splitlines()
    # Ann has six edges and Bob five; Bob fits better, so that what only Ann leads to is left out.
    assert told[0] == "Mew (mew): 4 of 4 neighbours, not all that there are"
    assert [line.split()[-1] for line in told[1:]] == ["(bob)", "(crow)", "(finch)", "(ann)"]


def test_similarities_are_the_cosines_of_stored_vectors(skb):
    similarity = similarity_for(skb, "vss")
    assert isinstance(similarity, Meaning)
    nodes = np.arange(len(skb.nodes), dtype=np.int32)
    found = dict(zip(map(skb.id, nodes.tolist()), similarity.documents(QUERY)(nodes).tolist(), strict=True))
    expected = {
        "lark": 1.0,
        "bob": 4 / math.sqrt(20),
        "crow": 2 / math.sqrt(6),
        "wren": 1 / math.sqrt(2),
        "finch": 0.5,
        "lark-town": 1 / math.sqrt(6),
    }
    assert found == pytest.approx({id: expected.get(id, 0.0) for id in found}, abs=1e-6)
    by_name = similarity.names(QUERY)
    for _ in range(2):  # encoded, then remembered
        assert by_name(nodes[nodes == skb.number("crow")]).tolist() == pytest.approx([1 / math.sqrt(2)])


def test_with_bm25_as_the_base_words_take_the_place_of_vectors(skb, said):
    similarity = similarity_for(skb, "bm25")
    assert isinstance(similarity, Words)
    scorer = similarity.documents("salt")
    numbers = {id: skb.number(id) for id in ("ann", "crow", "lark-town", "lark")}
    scores = {id: float(scorer(np.array([number], np.int32))[0]) for id, number in numbers.items()}
    assert scores["lark"] == 0
    assert min(scores["ann"], scores["crow"], scores["lark-town"]) > 0
    assert scores["ann"] == pytest.approx(dict(skb.text.search("salt"))[numbers["ann"]])
    names = similarity.names("storm crows")(np.array([numbers["crow"], numbers["lark"]], np.int32))
    assert names[0] > 0 == names[1]
    trace = Trace()
    unlinked = Script('[{"person": {"name": "Zzyzx"}}]', "one")
    KAR(skb, Listening("wren"), unlinked.calls, KAROptions(base="bm25")).expand(QUERY, trace)
    assert said(trace, "linked_nodes") == ["the query itself → Wren (wren) by document"]


def films(tmp_path: Path) -> SKB:
    """An actor with three films, a language that twelve others speak, and two Chicagos."""
    nodes = [("ann", "actor", "Ann Reed", "Born by the sea."), ("english", "language", "English", "A language.")]
    nodes += [(f"f{n}", "film", f"Film {n}", "A quiet comedy.") for n in range(3)]
    nodes += [(f"o{n}", "actor", f"Other {n}", "Cast member in comedy.") for n in range(12)]
    nodes += [(f"x{n}", "film", f"Aside {n}", "Of something else.") for n in range(60)]
    nodes += [("band", "band", "Chicago", "Rock and horns."), ("city", "city", "Chicago", "By a lake.")]
    edges = [(f"f{n}", "cast member", "ann") for n in range(3)]
    edges += [(f"o{n}", "language", "english") for n in range(12)]
    edges += [("ann", "language", "english"), ("ann", "born in", "city"), ("f0", "soundtrack by", "band")]
    return small_skb(
        tmp_path, (dict(zip(("id", "type", "name", "description"), node, strict=True)) for node in nodes), edges
    )


@pytest.mark.parametrize(
    ("options", "films_first"), [({"paths": "plain"}, False), ({}, True), ({"without": ("drf",)}, False)]
)
def test_what_an_actor_is_in_comes_before_what_a_hub_joins_with_her(tmp_path, options, films_first):
    script, trace = Script('[{"actor": {"name": "Ann Reed"}}]', "x"), Trace()
    with films(tmp_path) as skb:
        chosen = KAROptions(base="bm25", neighbours=5, samples=1, **options)
        KAR(skb, Listening(), script.calls, chosen).expand("comedy with Ann Reed as a cast member", trace)
    kept = next(step.nodes for step in trace.steps if step.call.tool == "document_triples")
    assert (set(kept[:3]) == {"f0", "f1", "f2"}) == films_first
    if options.get("paths") == "plain":  # equation 5: the twelve whose documents have the query's words
        assert all(node.startswith("o") for node in kept)


@pytest.mark.parametrize(
    ("query", "meant"),
    [("Which actor was born in Chicago?", "city"), ("Which film has a soundtrack by Chicago?", "band")],
)
def test_of_two_things_of_one_name_the_querys_words_say_which_is_meant(tmp_path, query, meant):
    script, trace = Script('[{"thing": {"name": "Chicago"}}]', "x"), Trace()
    with films(tmp_path) as skb:
        KAR(skb, Listening(), script.calls, KAROptions(base="bm25", samples=1)).expand(query, trace)
    linked = next(step for step in trace.steps if step.call.tool == "linked_nodes")
    assert linked.nodes == (meant,)
    assert "city (such as Chicago): name, description" in script.prompts[0]
    assert "be it a common noun: a genre, a profession" in script.prompts[0]


def test_the_neighbours_kept_are_candidates_of_the_last_ranking(skb):
    script, base = Script(NAMES_ANN, "one"), Listening("wren", "finch", "mew")
    system = kar(skb, script, base, samples=1, with_neighbours=True)
    # Lark and Bob, which the base did not find: each counts half of a place in its ranking.
    ranking = system.retrieve(QUERY, 5)
    assert ranking.ids == ["wren", "finch", "mew", "lark", "bob"]
    assert [node.score for node in ranking.nodes[3:]] == pytest.approx([0.5 / 61, 0.5 / 62], abs=1e-6)
    assert system.retrieve(QUERY, 2).ids == ["wren", "finch"]


def test_the_papers_preset_sets_what_is_not_given():
    paper = KAROptions.model_validate({"preset": "paper", "linking": "names"})
    assert (paper.linking, paper.paths, paper.with_neighbours) == ("names", "plain", False)
    assert KAROptions.model_validate({"preset": "paper"}).linking == "documents"


def test_ablations_reach_the_system_by_name(guitars):
    settings = Settings(kb="guitars", model="offline")
    for parts, gone in ((["kg"], True), (["drf"], False), (["kg", "drf"], True), ([], False)):
        retriever = build_retriever("kar", guitars, leave_out(settings, parts))
        trace = Trace()
        retriever.retrieve(QUERY, 3, trace)
        steps = [step for step in trace.steps if step.call.tool == "document_triples"]
        assert (steps == []) == gone
        assert [step.call.arguments["filter"] for step in steps] == (
            [] if gone else ["names" if parts else "documents"]
        )
    both = leave_out(Settings(kb="guitars", options={"without": "kg"}), ["drf"])
    assert build_retriever("kar", guitars, both).name == "kar"
    with pytest.raises(UsageError, match="vss has no option 'without'"):
        build_retriever("vss", guitars, leave_out(settings, ["kg"]))
    with pytest.raises(UsageError, match="kar: without"):
        build_retriever("kar", guitars, settings, {"without": "rollback"})


TREE = [(0, 0, 1), (0, 0, 2), (3, 0, 0), (1, 1, 4), (1, 1, 5), (2, 1, 6), (2, 1, 7), (8, 1, 3), (3, 1, 9)]
"""Node 0 with 1, 2 and 3, and behind each of them two more; (source, relation, target)."""


def graph_of(folder: Path, nodes: int, edges: Sequence[tuple[int, int, int]]) -> Graph:
    folder.mkdir()
    columns = np.array(edges, np.int64).T
    relations = int(columns[1].max()) + 1
    write_graph(folder, nodes, relations, (columns[0], columns[1], columns[2]))
    return Graph(folder, relations)


def scored(values: Sequence[float]) -> Scorer:
    table = np.array(values, np.float32)

    def score(nodes: NodeNumbers) -> Scores:
        return table[nodes]

    return score


def test_the_best_within_two_hops_are_taken_best_first_and_equal_ones_by_distance_and_number(tmp_path):
    surroundings = Surroundings(graph_of(tmp_path / "g", 11, TREE))
    scores = scored([0.9, 0.3, 0.1, 0.0, 0.5, 0.5, 0.7, -0.2, 0.1, 0.2, 0.8])  # 10 is on its own
    found = surroundings.best(0, scores, 4)
    assert [(triple.tail, round(triple.score, 3)) for triple in found.triples] == [
        (6, 0.7),
        (4, 0.5),
        (5, 0.5),
        (1, 0.3),
    ]
    assert (found.neighbours, found.cut) == (9, False)
    everything = surroundings.best(0, scores, 100)
    assert [triple.tail for triple in everything.triples] == [6, 4, 5, 1, 9, 2, 8, 3, 7]
    nothing_fits = surroundings.best(0, scored([0.0] * 11), 5)
    assert [triple.tail for triple in nothing_fits.triples] == [1, 2, 3, 4, 5]  # the near ones first
    far = Surroundings(graph_of(tmp_path / "h", 4, [(0, 0, 3), (3, 0, 1), (1, 0, 2)])).best(0, scored([0.0] * 4), 2)
    assert [triple.tail for triple in far.triples] == [3, 1]


def test_too_many_edges_are_followed_from_the_best_nodes_only(tmp_path):
    graph = graph_of(tmp_path / "g", 10, TREE)
    scores = scored([0, 0.1, 0.9, 0.8, 1, 1, 0.3, 0.3, 0.2, 0.2])
    # 1, 2 and 3 have three edges each: seven are enough for two of them.
    found = Surroundings(graph, edges=7).best(0, scores, 10)
    assert found.cut
    assert {triple.tail for triple in found.triples} == {1, 2, 3, 6, 7, 8, 9}
    # One node is followed however many edges it has.
    found = Surroundings(graph, edges=1).best(0, scores, 10)
    assert {triple.tail for triple in found.triples} == {1, 2, 3, 6, 7}
    whole = Surroundings(graph, edges=9).best(0, scores, 10)
    assert not whole.cut
    assert len(whole.triples) == 9


@pytest.fixture(scope="session")
def demo(demo_kb: KnowledgeBase) -> SKB:
    return demo_kb.skb


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_on_the_demo_all_is_as_a_search_through_its_file_of_edges_finds_it(demo, hops):
    edges = set(EDGES)
    near: dict[str, set[str]] = {}
    for source, _, target in edges:
        near.setdefault(source, set()).add(target)
        near.setdefault(target, set()).add(source)
    table = np.random.default_rng(3).random(len(demo.nodes)).astype(np.float32)
    surroundings = Surroundings(demo.graph, hops=hops)
    for start in range(0, len(demo.nodes), 9):
        reached, level = {demo.id(start)}, {demo.id(start)}
        for _ in range(hops):
            level = {other for node in level for other in near.get(node, ())} - reached
            reached |= level
        expected = sorted((demo.number(node) for node in reached - {demo.id(start)}), key=lambda node: -table[node])
        found = surroundings.best(start, lambda nodes: table[nodes], 10)
        assert [triple.tail for triple in found.triples] == expected[:10]
        assert found.neighbours == len(expected)
        for triple in found.triples:
            chain = [demo.id(node) for node in (triple.head, *(link.node for link in triple.links))]
            for (source, target), link in zip(pairwise(chain), triple.links, strict=True):
                named = {demo.relation_names[one] for one in link.out}
                assert named == {relation for a, relation, b in edges if (a, b) == (source, target)}
                back = {demo.relation_names[one] for one in link.into}
                assert back == {relation for a, relation, b in edges if (a, b) == (target, source)}
                assert named | back


def test_of_several_ways_that_over_the_best_node_is_told(tmp_path):
    graph = graph_of(tmp_path / "g", 4, [(0, 0, 1), (0, 0, 2), (1, 0, 3), (2, 0, 3)])
    for middle, scores in ((1, [0, 0.2, 0.1, 1]), (2, [0, 0.1, 0.2, 1]), (1, [0, 0.1, 0.1, 1])):
        best = Surroundings(graph).best(0, scored(scores), 1).triples[0]
        assert [link.node for link in best.links] == [middle, 3]


STRUCTURES = "- person: name, born, description\n- guitar: name, description\n- town: name, description\n"
LARK = "name: Lark. type: guitar. description: A letter from the storm is in it."
WREN = "name: Wren. type: guitar. description: Lost in a storm."
FINCH = "name: Finch. type: guitar. description: A letter on wood."


def test_structures_are_the_fields_that_documents_of_each_type_have(skb):
    assert structures(skb) == {
        "person": ("name", "born", "description"),
        "guitar": ("name", "description"),
        "town": ("name", "description"),
    }


def test_structures_are_read_off_documents_spread_over_a_type_and_leave_out_a_sources_own_fields(tmp_path):
    """127 documents, of which every other is looked at; one that is not has a field of its own."""
    fields = {0: {"first": "x", "_rank": 3}, 1: {"skipped": "x"}, 64: {"middle": "x"}, 126: {"last": "x", "empty": ""}}
    lines = [{"id": f"{n:03}", "type": "guitar", "name": f"G{n}", **fields.get(n, {})} for n in range(127)]
    with small_skb(tmp_path, lines, []) as many:
        assert structures(many) == {"guitar": ("name", "first", "middle", "last")}


def test_prf_puts_the_documents_found_first_behind_the_query(skb, said):
    base, trace = Listening("lark", "wren", "finch", "crow"), Trace()
    ranking = PRF(skb, base, PRFOptions(initial=2)).retrieve(QUERY, 7, trace)
    documents = ["Lark\ndescription: A letter from the storm is in it.", "Wren\ndescription: Lost in a storm."]
    expanded = "\n".join([QUERY, *documents])
    assert base.asked == [(QUERY, 2), (expanded, 7)]
    assert ranking.ids == ["lark", "wren", "finch", "crow"]
    assert said(trace, "expansion") == documents
    assert said(trace, "expanded_query") == [expanded]
    assert trace.usage.calls == 0


def test_prf_asks_the_plain_query_where_nothing_is_found_and_says_so(skb):
    base, trace = Listening(), Trace()
    PRF(skb, base, PRFOptions()).retrieve(QUERY, 5, trace)
    assert base.asked == [(QUERY, 3), (QUERY, 5)]
    told = next(step for step in trace.steps if step.call.tool == "expanded_query")
    assert not told.ok
    assert "as it is" in told.observation


def test_hyde_samples_documents_with_the_structures_in_view(skb, said):
    script, base, trace = Script("Document: one", "", "```\nthree\n```"), Listening("lark"), Trace()
    HyDE(skb, base, script.calls, SampledOptions()).retrieve(QUERY, 5, trace)
    assert len(script.prompts) == 3
    assert set(script.prompts) == {script.prompts[0]}
    assert STRUCTURES in script.prompts[0]
    assert script.prompts[0].endswith(f"Query: {QUERY}\nDocument:")
    assert "<documents>" not in script.prompts[0]
    assert base.asked == [(f"{QUERY}\none\nthree", 5)]
    assert said(trace, "model") == ["Document: one", "", "```\nthree\n```"]
    sampled = [step.call.arguments for step in trace.steps if step.call.tool == "model"]
    assert [(call["temperature"], call.get("sample", 0)) for call in sampled] == [(0.7, 0), (0.7, 1), (0.7, 2)]
    assert trace.usage.calls == 3


def test_rar_shows_the_model_what_the_query_finds(skb):
    script, base = Script("x", "y"), Listening("lark", "wren", "finch", "crow")
    RAR(skb, base, script.calls, FeedbackOptions(initial=2, samples=2)).retrieve(QUERY, 5)
    assert f"<documents>\n[1] {LARK}\n[2] {WREN}\n</documents>" in script.prompts[0]
    assert STRUCTURES in script.prompts[0]
    assert base.asked == [(QUERY, 2), (f"{QUERY}\nx\ny", 5)]


def test_agr_takes_its_five_calls_in_order(skb):
    script = Script("storm, letter", "A guitar by Ann.", "d1", "d2", "d1", "e1", "e2\nmore", "e1", "Document: refined")
    base, trace = Listening("lark", "wren", "finch", "crow"), Trace()
    AGR(skb, base, script.calls, FeedbackOptions()).retrieve(QUERY, 5, trace)
    purposes = [step.call.arguments["purpose"] for step in trace.steps if step.call.tool == "model"]
    assert purposes == ["extract", "analyse", *["generate"] * 3, *["again"] * 3, "refine"]
    extract, analyse, *rest = script.prompts
    generate, again, refine = rest[0], rest[3], rest[6]
    assert STRUCTURES not in extract + analyse + refine
    assert "Its keywords: storm, letter" in analyse
    assert STRUCTURES in generate
    assert "A guitar by Ann." in generate
    assert "<documents>" not in generate
    assert STRUCTURES in again
    assert f"<documents>\n[1] {LARK}\n[2] {WREN}\n[3] {FINCH}\n</documents>" in again  # each once, whoever found it
    assert "A guitar by Ann." not in again + refine  # in KAR's Table 7 neither sees the analysis
    assert "<documents>\n[1] e1\n[2] e2 more\n</documents>" in refine
    assert base.asked == [(f"{QUERY}\nd1", 3), (f"{QUERY}\nd2", 3), (f"{QUERY}\nrefined", 5)]
    temperatures = [step.call.arguments.get("temperature", 0) for step in trace.steps if step.call.tool == "model"]
    assert temperatures == [0, 0, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0]


DOWN = ServiceError("overloaded")


def faltering_kar(skb: SKB, model: Faltering) -> KAR:
    return KAR(skb, Listening("wren"), ModelCalls(model, "faltering", jobs=1), KAROptions())


def agr(skb: SKB, model: Faltering) -> AGR:
    return AGR(skb, Listening("lark"), ModelCalls(model, "faltering", jobs=1), FeedbackOptions())


def test_kar_goes_on_without_entities_where_that_call_fails(skb):
    trace = Trace()
    assert faltering_kar(skb, Faltering(replies=[DOWN, "one", "two", "three"])).expand(QUERY, trace) == [
        "one",
        "two",
        "three",
    ]
    assert [step.ok for step in trace.steps if step.call.tool == "model"] == [False, True, True, True]


def test_agr_goes_on_where_any_of_its_single_calls_fails(skb):
    trace = Trace()
    model = Faltering(replies=[DOWN, DOWN, "d1", "d2", "d3", "e1", "e2", "e3", DOWN])
    assert agr(skb, model).expand(QUERY, trace) == ["e1", "e2", "e3"]
    failed = [step.call.arguments["purpose"] for step in trace.steps if step.call.tool == "model" and not step.ok]
    assert failed == ["extract", "analyse", "refine"]


@pytest.mark.parametrize("system", [faltering_kar, agr])
def test_where_every_call_fails_the_run_does(skb, system):
    with pytest.raises(ServiceError, match="overloaded"):
        system(skb, Faltering(replies=[DOWN])).expand(QUERY, Trace())


@pytest.mark.parametrize("system", [faltering_kar, agr])
@pytest.mark.parametrize("failure", [CredentialsError("refused"), Stopped("stopped")])
def test_what_leaves_no_call_a_chance_ends_the_run_at_once(skb, system, failure):
    model = Faltering(replies=[failure, "one"])
    with pytest.raises(type(failure)):
        system(skb, model).expand(QUERY, Trace())
    assert len(model.seen) == 1


KINDS = ("person", "gene/protein", "field_of_study")
ANN_NAMED = Entity("person", "Ann Reed", "Ann Reed\nborn: 1701")
TP53 = Entity("gene/protein", "TP53", "TP53")


@pytest.mark.parametrize(
    "reply",
    [
        '[{"person": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}}]',
        '{"person": {"name": "Ann Reed", "born": 1701}, "gene/protein": {"name": "TP53"}}',
        '{"Person": [{"born": "1701", "name": "Ann Reed"}], "gene/protein": ["TP53"]}',
        'Yes:\n```json\n[{"person": {"name": "Ann Reed", "born": "1701"}},\n{"gene/protein": "TP53"}]\n```\nOK.',
        '{"person": {"name": "Ann Reed", "born": "1701"}}\n{"gene/protein": {"name": "TP53"}}',
        '{"all": [{"type": "person", "name": "Ann Reed", "born": "1701"}, {"type": "Gene protein", "id": "TP53"}]}',
        '[{"type": "person", "attributes": {"name": "Ann Reed", "born": "1701"}}, {"gene/protein": {"name": "TP53"}},'
        ' {"gene/protein": {"name": "TP53"}}]',
    ],
)
def test_entities_are_read_however_the_model_nests_them(reply):
    assert entities(reply, KINDS) == [ANN_NAMED, TP53]


@given(st.text() | st.text(alphabet="[]{}\"',:ab\\ \n-1."))
def test_no_reply_is_an_error(reply):
    assert all(entity.name.strip() for entity in entities(reply, KINDS))
    assert document(reply) == document(reply).strip()
