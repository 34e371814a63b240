"""``kbnav skb`` and asking an SKB, as a person or a script does it: what is printed, and the exit codes."""

import csv
import io
import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apps.parts import Cli
from tests.encoders.endpoint import embeddings as vectors
from tests.ending import started
from tests.models.stub import Canned, ModelStub, completion, failure

NODES = """\
{"id": "p1", "type": "person", "name": "Ann Reed"}
{"id": "p2", "type": "person", "name": "Bob Lisk"}
{"id": "h1", "type": "house", "name": "The Mill", "description": "A house with a wheel."}
{"id": "h2", "type": "house", "name": "Long Barn"}
"""
EDGES = "source\trelation\ttarget\np1\towns\th1\np1\towns\th2\np2\towns\th2\np2\towns\tnowhere\n"
TURTLE = """\
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a a ex:Lake ; rdfs:label "Mere" ; ex:flowsInto ex:b .
ex:b a ex:Sea ; rdfs:label "Deep" .
"""


@pytest.fixture
def kbnav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    (tmp_path / "nodes.jsonl").write_text(NODES)
    (tmp_path / "edges.tsv").write_text(EDGES)
    (tmp_path / "lakes.ttl").write_text(TURTLE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return Cli(monkeypatch, capsys)


def built(kbnav: Cli, *more: str) -> str:
    code, _, error = kbnav(
        "skb", "build", "--nodes", "nodes.jsonl", "--edges", "edges.tsv", "--out", "v.skb", "--encoder", "none", *more
    )
    assert code == 0, error
    return error


def test_a_chat_shows_the_last_query_that_ran_where_the_answer_is_a_ranking(kbnav):
    built(kbnav)
    typed = "/sparql\nWhich houses does Ann Reed own?\n/sparql\n"
    before, after = kbnav.out("chat", "--quiet", "--kb", "v.skb", typed=typed).split("Long Barn", 1)
    assert ("SELECT" in before, "rel:owns" in after) == (False, True)


def test_an_skb_built_from_rdf_is_asked(kbnav):
    code, out, _ = kbnav("skb", "build", "--from", "rdf", "lakes.ttl", "--out", "l.skb", "--encoder", "none")
    assert (code, out) == (0, "l.skb: 2 nodes, 1 edge\n")
    out = kbnav.out("ask", "--kb", "l.skb", "--csv", "Into which sea flows Mere?")
    assert [row["name"] for row in csv.DictReader(io.StringIO(out))] == ["Deep"]
    told = kbnav.out("ask", "--kb", "l.skb", "-q", "--set", "language=de", "Into which sea flows Mere?")
    assert all(word in told for word in ("Rang", "Name", "Art"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "--out", "v.skb"], "give records with --nodes"),
        (["build", "--nodes", "n", "--label-property", "x", "--out", "v.skb"], "--label-property goes with --from rdf"),
        (["build", "--nodes", "nodes.jsonl", "--encoder", "bert", "--out", "v.skb"], "no encoder 'bert'"),
        (["info", "."], "is not an SKB: it has no meta.json"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(kbnav, arguments, message):
    error = kbnav.refused("skb", *arguments)
    assert (message in error, len(error.splitlines())) == (True, 1)


def test_a_query_is_run_and_a_misspelled_folder_is_told_what_is_beside_it(kbnav, tmp_path):
    more = NODES.replace('wheel."', 'wheel.", "made": [1850, {"by": "Zoë"}]')
    (tmp_path / "nodes.jsonl").write_text(more, encoding="utf-8")
    built(kbnav, "--sparql")
    query = ("sparql", "query", "SELECT ?h { ?p rel:owns ?h . ?p rdfs:label 'Ann Reed' } ORDER BY ?h", "--kb")
    rows = json.loads(kbnav.out(*query, "v.skb", "--json"))
    assert rows == [{"h": "h1", "hLabel": "The Mill"}, {"h": "h2", "hLabel": "Long Barn"}]
    assert kbnav.out(*query, "v.skb", "--csv").split() == ["h", "urn:kbnav:node/h1", "urn:kbnav:node/h2"]
    assert "The Mill" in kbnav.out(*query, "v.skb")
    nodes = kbnav.out("retrieve", "--kb", "v.skb", "--system", "bm25", "--csv", "a wheel")
    assert next(csv.DictReader(io.StringIO(nodes)))["made"] == '1850; {"by": "Zoë"}'
    assert kbnav.out("sparql", "query", "ASK { ?s rel:owns ?o }", "--kb", "v.skb").strip() == "True"
    for wrong in (("skb", "info", "v.sbk"), (*query, "v.sbk"), ("ask", "--kb", "v.sbk", "Who?")):
        assert "did you mean 'v.skb'?" in kbnav(*wrong)[2]


def test_a_chat_model_is_asked_with_the_tools_and_words_of_an_skb(kbnav):
    built(kbnav)
    replies = [
        completion(None, [("search_neighbors", {"thought": "Look.", "entity_id": "p2"})]),
        completion(None, [("finish", {"thought": "Seen.", "nodes": ["h2"]})]),
        completion("Bob Lisk owns the Long Barn."),
    ]
    with ModelStub(replies) as stub:
        model = ["--model", "stub", "--base-url", stub.base_url]
        answer = json.loads(kbnav.out("ask", "--kb", "v.skb", *model, "--json", "What does Bob own?"))
        sent = stub.requests[0]
    assert answer["answer"] == "Bob Lisk owns the Long Barn."
    tools = {tool["function"]["name"]: tool["function"] for tool in sent["tools"]}
    assert list(tools) == [
        "search_entities", "get_entry", "get_property_examples", "search_neighbors", "find_relations", "follow_paths",
        "get_fields", "execute_query", "show_rows", "finish",
    ]  # fmt: skip
    assert tools["finish"]["parameters"]["properties"]["nodes"]["type"] == "array"
    assert "- owns: person --> house 3" in sent["messages"][0]["content"]
    assert "Q42" not in json.dumps(sent)
    assert "Wikidata" not in json.dumps(sent)


def test_vectors_of_an_endpoint_are_asked_of_it_again_with_the_settings_own_key(kbnav, embeddings, monkeypatch):
    monkeypatch.setenv("KBNAV_BASE_URL", embeddings.base_url)
    monkeypatch.setenv("KBNAV_API_KEY", "secret")
    arguments = ["--nodes", "nodes.jsonl", "--edges", "edges.tsv", "--out", "v.skb", "--encoder", "openai:small"]
    assert kbnav("skb", "build", *arguments)[0] == 0
    sent = len(embeddings.headers)
    out = kbnav.out("ask", "--kb", "v.skb", "--csv", "Which house that Ann Reed owns has a wheel?")
    assert out.splitlines()[1].startswith("1,The Mill,")
    assert len(embeddings.headers) > sent
    assert {header["authorization"] for header in embeddings.headers} == {"Bearer secret"}


def test_a_build_killed_while_it_embeds_goes_on_and_an_update_embeds_what_changed(kbnav, embeddings, tmp_path):
    names = [f"House {number}" for number in range(600)]
    records = [{"id": name, "type": "house", "name": name} for name in names]
    (tmp_path / "many.jsonl").write_text("\n".join(map(json.dumps, records)))
    served = ["--base-url", embeddings.base_url]
    build = ["skb", "build", "--nodes", "many.jsonl", "--out", "m.skb", "--no-text", "--no-sparql"]
    build += ["--encoder", "openai:small", *served]
    embeddings.held_from = 9  # the first 512 nodes are 8 requests
    with started([sys.executable, "-m", "kbnav", *build]) as process:
        assert embeddings.holding.wait(120)
    assert process.returncode == -signal.SIGKILL
    assert "its build was not finished; run it again" in kbnav("skb", "info", "m.skb")[2]
    first = embeddings.texts()[: 8 * 64]
    embeddings.release()

    code, out, error = kbnav(*build)
    assert (code, out) == (0, "m.skb: 600 nodes, 0 edges\n")
    assert "nodes: 600" not in error
    assert sorted(first + embeddings.texts()) == sorted(names)
    assert kbnav("skb", "info", "m.skb", "--check")[0] == 0

    embeddings.requests.clear()
    changed = [{"id": "House 7", "name": "Mill"}, {"id": "House 8", "deleted": True}]
    (tmp_path / "changed.jsonl").write_text("\n".join(map(json.dumps, changed)))
    assert kbnav("skb", "update", "m.skb", "--nodes", "changed.jsonl", *served)[1] == "m.skb: 599 nodes, 0 edges\n"
    assert embeddings.texts() == ["Mill"]


def test_a_build_whose_endpoint_fails_says_that_it_can_go_on(kbnav):
    with ModelStub([failure(400, "too long", Connection="close")]) as stub:
        arguments = ["--nodes", "nodes.jsonl", "--out", "v.skb", "--encoder", "openai:small"]
        code, out, error = kbnav("skb", "build", *arguments, "--base-url", stub.base_url)
    assert (code, out) == (3, "")
    assert "stopped; the same command continues it" in error
    assert error.splitlines()[-1].startswith(f"kbnav: openai:small at {stub.base_url}/: ")


class Embeddings(ModelStub):
    """Answers every request with vectors of the length of a text; from a request on it may be held until released."""

    def __init__(self) -> None:
        super().__init__([])
        self.held_from = 0
        self.holding, self._released = threading.Event(), threading.Event()

    def texts(self) -> list[str]:
        """What was asked for, in order."""
        return [text for asked in self.requests for text in asked["input"]]

    def release(self) -> None:
        """Forget what was asked, and hold nothing any more."""
        self.held_from = 0
        self.requests.clear()
        self._released.set()

    def reply(self, asked: dict[str, Any]) -> Canned:
        if 0 < self.held_from <= len(self.requests):
            self.holding.set()
            self._released.wait(60)
        return Canned(vectors(asked)[1])


@pytest.fixture
def embeddings() -> Iterator[Embeddings]:
    with Embeddings() as stub:
        yield stub


def test_info_counts_edges_at_both_ends_and_the_words_of_documents(kbnav):
    built(kbnav)
    # "Ann Reed", "Bob Lisk", "The Mill description: A house with a wheel.", "Long Barn"
    found = json.loads(kbnav("skb", "info", "v.skb", "--json")[1])
    assert (found["nodes"], found["edges"], found["average_degree"], found["tokens"]) == (4, 3, 1.5, 14)
    assert found["types"] == [{"name": "person", "count": 2}, {"name": "house", "count": 2}]
    assert (found["largest_degree"], found["isolated"], found["indexed"]) == (2, 0, "plain")
    assert found["fields"] == {"house": {"description": "A house with a wheel."}}
    assert "house: 2\n    description: A house with a wheel." in kbnav("skb", "info", "v.skb")[1]
    mill = next(line for line in NODES.splitlines() if "The Mill" in line)
    told = kbnav("skb", "info", "v.skb", "--node", json.loads(mill)["id"])[1]
    assert "A house with a wheel." in told
    assert "Ann Reed" in told
    assert "Bob Lisk (p2)" in kbnav.refused("skb", "info", "v.skb", "--node", "Bob Lisp")


def test_lines_that_an_update_leaves_out_do_not_replace_those_of_the_build(kbnav, tmp_path):
    built(kbnav, "--bad", "skip")
    (tmp_path / "mill.jsonl").write_text('{"id": "h1", "name": "Mill"}\n')
    for number, given in enumerate(("--nodes", "--nodes", "--edges", "--nodes mill.jsonl --edges"), 1):
        (tmp_path / "torn.jsonl").write_text(f'{{"id": {number}b}}\n')
        code, _, error = kbnav("skb", "update", "v.skb", *given.split(), "torn.jsonl", "--bad", "skip")
        assert code == 0
        assert f"line that cannot be read (all are in v.skb.bad-{number}.jsonl, but for a dry run): 1" in error
    told = json.loads(kbnav.out("skb", "info", "v.skb", "--json"))["dropped"]
    assert [one["count"] for reason, one in told.items() if reason.startswith("line that")] == [1, 1, 1, 1]
    left = [json.loads(Path(f"v.skb.bad-{number}.jsonl").read_text())["line"] for number in (1, 2, 3, 4)]
    assert left == ['{"id": 1b}', '{"id": 2b}', '{"id": 3b}', '{"id": 4b}']
    (tmp_path / "edges.tsv").rename(tmp_path / "moved.tsv")
    assert f"edges.tsv: No such file or directory, in {tmp_path}" in kbnav.refused("skb", "update", "v.skb")


def test_a_dry_run_names_what_a_build_leaves_out(kbnav, tmp_path):
    (tmp_path / "n.csv").write_text("id,name\n7,Lamp\n010,Bulb\n7,Old Lamp\n")
    edges = "7,fits,10,", "007,fits,010,", "7,fits,70,", "7,fits,010,", "7,fits,10,true", "7,,10,"
    (tmp_path / "e.csv").write_text("\n".join(["source,relation,target,deleted", *edges, ""]))
    code, out, error = kbnav("skb", "build", "--nodes", "n.csv", "--edges", "e.csv", "--dry-run")
    assert (code, "n.csv" in out, "node id given twice: 1 (7 Old Lamp)" in error) == (0, True, True)
    assert "zeros before a number: 2 (7 fits 10: there is 010, 007 fits 010: there is 7)" in error
    assert "does not exist: 1 (7 fits 70)" in error
    told = json.loads(kbnav.out("skb", "build", "--nodes", "n.csv", "--edges", "e.csv", "--dry-run", "--json"))
    assert told["columns"]["n.csv"]["name"] == ["text", ["Lamp", "Bulb", "Old Lamp"]]
    assert told["dropped"]["edge deleted"] == {"count": 1, "examples": ["7 fits 10"]}
    assert told["dropped"]["edge without a relation"]["count"] == 1
