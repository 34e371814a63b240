"""The SKB agent with a scripted model: its tools, when it may finish, what it answers, and what the model is told.

The demo SKB's facts are those of its two files: the Heron was built by Jacca Penrose, and so on.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from benchmarks.near_verbatim import drawn, rank
from langchain_core.messages import AIMessage

from kbnav.agents.common.schema import RELATIONS, Schema, hide_single_type
from kbnav.agents.skb import skb_offline, skb_with
from kbnav.agents.walking.base import open_match
from kbnav.answers.tables import Ranked, Ranking
from kbnav.apps.web.downloads import answer_csv
from kbnav.errors import QueryTimeout, ServiceError
from kbnav.knowledge.skb.kb import Relations, SkbKB, as_skb
from kbnav.knowledge.skb.matching import unmatched_names
from kbnav.knowledge.skb.rendering import excerpt
from kbnav.knowledge.sparql.verbalization import verbalize_answer
from kbnav.models.scripted import ScriptedModel, says
from kbnav.prompts import render
from kbnav.runs.trajectory import Run, load_run
from kbnav.sessions.evidence import run_evidence
from kbnav.sessions.session import Chat, ask, sqlite_sessions
from kbnav.settings.model import Settings
from kbnav.tools.context import Context, Observation, Shown, prune_by_ranking
from kbnav.tools.skb import SKB_TOOLS
from kbnav.tools.toolbox import Toolbox
from tests.data import EDGES, NODES
from tests.knowledge.skb.sources import small_skb

BUILDER = "person:kerra-penrose"
SHIPS = sorted(source for source, relation, target in EDGES if (relation, target) == ("built by", BUILDER))

PERSONS = {id for id, node in NODES.items() if node["type"] == "person"}

LOOK = says(("search_neighbors", {"entity_id": BUILDER, "relation": "built by", "direction": "in"}))


def finish(*nodes: str, thought: str = "All of them.", **more: object) -> AIMessage:
    return says(("finish", {"nodes": list(nodes), **more}), thought=thought)


def asked(kb, home: Path, *replies: AIMessage, writer: ScriptedModel | None = None, **budget: int) -> Run:
    return ask(agent(kb, home, ScriptedModel(replies=list(replies)), writer, **budget), "Which ships did she build?")


def agent(kb, home: Path, model: ScriptedModel, writer: ScriptedModel | None = None, **budget: int):
    settings = Settings(home=home, kb="demo", language="en", model="scripted", budget=budget)  # type: ignore[arg-type]
    return skb_with(model, writer, kb, settings)


def test_the_nodes_that_finish_names_are_the_answer_with_names_and_types(demo_kb, tmp_path):
    assert len(SHIPS) > 1
    run = asked(demo_kb, tmp_path, LOOK, finish(*SHIPS, thought="She built these."))
    assert run.outcome.status == "answered"
    assert run.outcome.ranking == Ranking(
        tuple(Ranked(ship, round(1 / rank, 4), NODES[ship]["name"], "ship") for rank, ship in enumerate(SHIPS, 1))
    )
    assert run.outcome.text == ", ".join(NODES[ship]["name"] for ship in SHIPS)
    assert run.outcome.note == "She built these."
    assert load_run(tmp_path / "runs" / f"{run.id}.json") == run


def test_what_a_query_computed_of_the_nodes_or_counted_comes_with_the_answer_and_its_evidence(demo_kb, tmp_path):
    makers = "SELECT ?who (COUNT(?ship) AS ?ships) WHERE { ?ship rel:built_by ?who } GROUP BY ?who"
    makers += f" ORDER BY DESC(?who = node:{BUILDER})"
    run = asked(demo_kb, tmp_path, says(("execute_query", {"query": makers})), finish(BUILDER))
    assert run.outcome.ranking.records()[0] | {"score": 1.0} == {
        "rank": 1, "name": NODES[BUILDER]["name"], "id": BUILDER, "type": "person", "score": 1.0, "basis": "",
        "ships": len(SHIPS),
    }  # fmt: skip
    assert answer_csv(run.outcome).splitlines()[0].endswith(",ships")
    assert run.outcome.query == f"{makers}\nLIMIT 1"
    behind = run_evidence(demo_kb, run)
    assert {one.subject.entity_id for one in behind.rows[0] if one.source == "graph"} == {*SHIPS}
    assert load_run(tmp_path / "runs" / f"{run.id}.json") == run
    broad = asked(demo_kb, tmp_path, says(("execute_query", {"query": makers})), finish("person:marit-skarrow")).outcome
    assert (broad.query, broad.ranking.records()[0]["ships"]) == ("", 2)  # it lists more than the answer
    each = f"SELECT ?node ?who {{ ?node rel:built_by ?who VALUES ?who {{ node:{BUILDER} }} }}"
    run = asked(demo_kb, tmp_path, says(("execute_query", {"query": each})), finish(BUILDER))
    names = {NODES[ship]["name"] for ship in SHIPS}
    assert {*run.outcome.ranking.records()[0]["node (query)"].split("; ")} == names
    assert [one for one in run.outcome.ranking.found.labels if one in PERSONS] == [BUILDER]
    links = [one for one in run_evidence(demo_kb, run).rows[0] if one.source == "graph"]
    assert {(one.subject.entity_id, one.value.entity_id) for one in links} == {(ship, BUILDER) for ship in SHIPS}
    count = f"SELECT (COUNT(DISTINCT ?ship) AS ?number) WHERE {{ ?ship rel:built_by node:{BUILDER} }}"
    yearly = count.replace("COUNT(DISTINCT ?ship)", "COUNT(?ship) / 7.0")
    both = (
        f"SELECT ?who (COUNT(?ship) AS ?ships) WHERE {{ VALUES ?who {{ node:{BUILDER} node:person:marit-skarrow }}"
        " ?ship rel:built_by ?who } GROUP BY ?who"
    )
    asks = f"ASK {{ ?ship rel:built_by node:{BUILDER} }}"
    for said, ran, more, query in (
        (f"She built {len(SHIPS)}.", count, (), count),
        ("She built many.", count, (), ""),
        (f"About {len(SHIPS)}0 of them.", count, (), ""),
        (f"{len(SHIPS) / 7:.2f} a year.", yearly, (), yearly),
        (f"She built {len(SHIPS)}, Marit Skarrow 2.", both, (), both),
        (f"She built {len(SHIPS)} of them.", both, (), ""),
        ("Yes, she did.", asks, (), asks),
        ("She was a shipwright.", asks, (LOOK,), ""),
    ):
        ended = says(("finish", {"nodes": [], "answer": said}), thought="x")
        run = asked(demo_kb, tmp_path, says(("execute_query", {"query": ran})), *more, ended)
        assert (run.outcome.query, run.outcome.table is not None) == (query, bool(query))
        words = verbalize_answer(run.outcome.query, run.outcome.result, "en")
        assert (words is not None and NODES[BUILDER]["name"] in words.text()) is bool(query)
    hers, other = f"?ship a type:ship ; rel:built_by node:{BUILDER}", count.replace(BUILDER, "person:marit-skarrow")
    first, last = (f"SELECT ?ship {{ {hers} }} ORDER BY {order}(?ship) LIMIT 1" for order in ("ASC", "DESC"))
    told = {"nodes": [], "answer": f"She built {len(SHIPS)}, Marit Skarrow 2."}
    for parts, ended, query in (((count, other), told, other), ((first, last), {"nodes": [SHIPS[0], SHIPS[-1]]}, "")):
        looked = [says(("execute_query", {"query": one})) for one in parts]
        outcome = asked(demo_kb, tmp_path, *looked, says(("finish", ended), thought="x")).outcome
        assert (outcome.query, outcome.note.count(NODES[BUILDER]["name"])) == (query, 1 if query else 2)


def test_a_finish_with_a_node_that_was_never_shown_is_dropped_and_the_model_is_told(demo_kb, tmp_path):
    unseen = "ship:gannet"
    assert unseen in NODES
    assert unseen not in SHIPS
    model = ScriptedModel(replies=[LOOK, finish(SHIPS[0], unseen), LOOK, finish(SHIPS[0])])
    run = ask(agent(demo_kb, tmp_path, model), "Which ships did she build?")
    assert [(step.call.tool, step.dropped) for step in run.steps] == [
        ("search_neighbors", "rolled back"),
        ("finish", "premature finish"),
        ("search_neighbors", ""),
        ("finish", ""),
    ]
    assert "ids of nodes that a result has shown" in model.seen[2][-1].text
    assert list(run.outcome.ranking.ids) == [SHIPS[0]]


def test_no_answer_may_be_said_once_something_was_looked_at(demo_kb, tmp_path):
    run = asked(demo_kb, tmp_path, finish(), LOOK, finish(thought="She built none."))
    assert [step.dropped for step in run.steps] == ["premature finish", "", ""]
    assert (run.outcome.status, run.outcome.note) == ("no answer", "She built none.")
    assert run.outcome.ranking is None
    why = {"answer": "She built no ship.", "no_answer": True}
    said = asked(demo_kb, tmp_path, LOOK, finish(SHIPS[0], thought="Seen.", **why)).outcome
    assert (said.status, said.text, said.ranking, said.absence) == ("no answer", "She built no ship.", None, None)
    asks = says(("execute_query", {"query": f"ASK {{ ?x rel:built_by node:{BUILDER} }}"}))
    assert asked(demo_kb, tmp_path, asks, finish(**why)).outcome.table is None  # a probe is not the answer


def test_out_of_budget_the_nodes_seen_most_and_first_are_returned_and_marked(demo_kb, tmp_path):
    replies = [
        LOOK,
        says(("execute_query", {"query": f"SELECT ?x WHERE {{ ?x rel:built_by node:{BUILDER} }} ORDER BY ?x"})),
        says(("search_entities", {"query": "Gannet"})),
    ]
    run = asked(demo_kb, tmp_path, *replies, steps=3)
    assert (run.outcome.status, run.outcome.stop) == ("best effort", "step budget")
    assert set(run.outcome.ranking.ids[: len(SHIPS)]) == set(SHIPS)
    assert BUILDER not in run.outcome.ranking.ids
    assert all(node.score < 1 / 20 for node in run.outcome.ranking.nodes)


def test_a_run_that_saw_nothing_has_no_answer(demo_kb, tmp_path):
    look = says(("search_entities", {"query": "zzzzqqqq"}))
    run = asked(demo_kb, tmp_path, look, steps=1)
    assert run.outcome.status == "no answer"
    assert run.path[0].nodes == ()
    back = asked(demo_kb, tmp_path, look, finish(answer="Which harp do you mean?", no_answer=True)).outcome
    assert (run.outcome.absence is None, back.absence) == (False, None)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("search_entities", {"query": "Kerra Penrose"}, BUILDER),
        ("get_entry", {"entity_id": SHIPS[0]}, BUILDER),
        ("get_property_examples", {"relation": "wrecked at"}, ""),
        ("search_neighbors", {"entity_id": SHIPS[0]}, BUILDER),
        ("search_neighbors", {"entity_id": SHIPS[0], "query": "who built it"}, BUILDER),
        ("vector_query", {"text": "kept bees", "node_type": "person", "limit": 5}, "person:petrok-lisk"),
        ("execute_query", {"query": f"SELECT ?x WHERE {{ node:{SHIPS[0]} rel:built_by ?x }}"}, BUILDER),
    ],
)
def test_every_tool_gives_the_ids_that_it_shows_and_no_others(demo_kb, tmp_path, tool, arguments, expected):
    step = asked(demo_kb, tmp_path, says((tool, arguments)), steps=1).path[0]
    assert step.ok, step.observation
    assert expected in (*step.nodes, "")
    shown = {word.strip("().,") for word in re.findall(r"[a-z]+:[\w.-]+", step.observation)}
    assert set(step.nodes) == shown & set(NODES) - ({SHIPS[0]} if tool == "search_neighbors" else set())


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("get_entry", {"entity_id": "ship:nowhere"}, "there is no node or relation 'ship:nowhere'"),
        ("search_neighbors", {"entity_id": SHIPS[0], "relation": "sank"}, "there is no relation 'sank'"),
        ("vector_query", {"text": "bees", "node_type": "insect"}, "there is no node type 'insect'"),
        ("execute_query", {"query": "DELETE WHERE { ?s ?p ?o }"}, "DELETE changes data"),
        ("execute_query", {"query": "ASK { ?x wdt:P31 ?y }"}, "the prefix `wdt:` means nothing here; there are node:"),
        ("execute_query", {"query": "ASK { ?x foo:a ?y }"}, "`foo:` means nothing here; there are node:, type:, rel:"),
        ("execute_query", {"query": "ASK { ?x a type:Ship }"}, "there is no type:Ship in demo; there are: type:place"),
        ("execute_query", {"query": "ASK { ?x rel:built_by/rel:sank ?y }"}, "there is no rel:sank in demo; there are:"),
        ("execute_query", {"query": "ASK { node:ship:none ?p ?y }"}, "there is no node:ship:none in demo"),
        ("finish", {"nodes": "ship:gannet"}, "nodes"),
    ],
)
def test_what_the_model_can_mend_is_told(demo_kb, tmp_path, tool, arguments, problem):
    step = asked(demo_kb, tmp_path, says((tool, arguments)), steps=1).path[0]
    assert not step.ok
    assert problem in step.observation
    assert not re.search(r"wikidata|wikibase|statement|\bP\d+ is", step.observation, re.IGNORECASE)


def test_a_long_table_shows_twenty_rows_and_only_their_nodes(demo_kb, tmp_path):
    query = "SELECT ?x WHERE { ?x a type:person } ORDER BY ?x"
    step = asked(demo_kb, tmp_path, says(("execute_query", {"query": query})), steps=1).path[0]
    people = sorted(node for node in NODES if node.startswith("person:"))
    assert step.rows == len(people)
    assert step.nodes == (*people[:10], *people[-10:])


def test_a_number_is_counted_without_sparql_and_is_an_answer_without_nodes(demo_kb, tmp_path):
    count = says(("follow_paths", {"paths": [{"entity_ids": [BUILDER], "relations": ["^built by"]}], "limit": 2}))
    done = says(("finish", {"nodes": [], "answer": f"{len(SHIPS)}."}))
    run = asked(demo_kb, tmp_path, says(("finish", {"nodes": [], "answer": "Nine."})), count, done)
    assert run.path[0].observation.startswith(f"{len(SHIPS)} nodes; 1 to 2 shown")
    assert [step.dropped for step in run.discarded] == ["premature finish"]  # nothing was looked at
    assert (run.outcome.status, run.outcome.text, run.outcome.ranking) == ("answered", f"{len(SHIPS)}.", None)


def test_all_nodes_of_a_type_are_counted_and_those_with_the_most_links_come_first(demo_kb, tmp_path):
    ships = {node for node in NODES if NODES[node]["type"] == "ship"}
    built = Counter(target for source, relation, target in EDGES if relation == "built by" and source in ships)
    most = max(built.values())
    look = {"node_type": "person", "most_by": "^built by", "limit": 3}
    pages = [{"node_type": "ship", "limit": 10, "offset": offset} for offset in (0, 10)]
    calls = [says(("follow_paths", arguments)) for arguments in (look, *pages)]
    best, *shown = asked(demo_kb, tmp_path, *calls, finish()).path[:3]
    assert {node for node, count in built.items() if count == most} <= set(best.nodes)
    assert f"; {most} links by ^built by; " in best.observation.splitlines()[1]
    assert best.observation.startswith(f"{sum(one['type'] == 'person' for one in NODES.values())} nodes; 1 to 3 shown")
    assert sorted([*shown[0].nodes, *shown[1].nodes]) == sorted(ships)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_follow_up_without_a_name_goes_on_from_the_first_answer(demo_kb, tmp_path, durability):
    settings = Settings(home=tmp_path, kb="demo", language="en")
    with sqlite_sessions(tmp_path) as saver:
        chat = Chat(skb_offline(demo_kb, settings), "s", saver)
        first, _ = chat.attempt("Which ship built by Marit Skarrow was yellow?", durability=durability)
        kept = len(list(saver.list({"configurable": {"thread_id": "s"}})))
        assert (kept == 1) == (durability == "exit")  # else one after each node
        ship = first.outcome.ranking.nodes[0]
        run = Chat(skb_offline(demo_kb, settings), "s", saver).ask("Which materials were carried by it?")
    carried = {target for source, relation, target in EDGES if (source, relation) == (ship.id, "carried")}
    assert carried
    assert set(run.outcome.ranking.ids) == carried
    assert run.history[0].outcome.ranking.nodes == first.outcome.ranking.nodes


def test_nodes_shown_in_an_earlier_turn_count_as_seen(demo_kb, tmp_path):
    unseen = next(node for node in NODES if node.startswith("ship:") and node not in SHIPS)
    with sqlite_sessions(tmp_path) as saver:
        first = agent(demo_kb, tmp_path, ScriptedModel(replies=[LOOK, finish(SHIPS[0])]))
        Chat(first, "s", saver).ask("Which ships did she build?")
        later = agent(demo_kb, tmp_path, ScriptedModel(replies=[finish(unseen), finish(SHIPS[1])]))
        run = Chat(later, "s", saver).ask("And the other one?")
    assert [(step.call.arguments["nodes"], step.dropped) for step in run.steps] == [
        ([unseen], "premature finish"),
        ([SHIPS[1]], ""),
    ]
    assert run.outcome.status == "answered"
    assert list(run.outcome.ranking.ids) == [SHIPS[1]]


def use(kb: SkbKB, tool: str, question: str = "Who?", **arguments: object) -> Observation:
    toolbox = Toolbox.for_kb(kb, SKB_TOOLS)
    thought, values = toolbox.validate(tool, {"thought": "why", **arguments})
    return toolbox.run(Context(kb, question, "en", prune_by_ranking(Shown())), tool, thought, values)


def skb_of(folder: Path, nodes: list[dict[str, object]], edges: list[tuple[str, str, str]], **options: bool) -> SkbKB:
    return SkbKB(small_skb(folder, nodes, edges, **{"sparql": True, **options}))


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkbKB]:
    """Relations whose names SPARQL would not take, and a hundred kinds of links."""
    nodes: list[dict[str, object]] = [{"id": f"n{n}", "type": f"kind {n % 40}", "name": f"Node {n}"} for n in range(80)]
    edges = [("n0", "Gr>G", "n1"), ("n0", "/film/film/directed_by", "n2"), ("n0", "_hypernym", "n3")]
    edges += [(f"n{n % 80}", f"way number {n}", f"n{(n * 3 + 1) % 80}") for n in range(100)]
    kb = skb_of(tmp_path_factory.mktemp("odd"), nodes, edges)
    yield kb
    kb.close()


def test_a_relation_has_one_short_name_and_the_whole_one_only_where_two_would_be_the_same():
    given = ("_hypernym", "/a/b/born_in", "/c/born_in", "made by", "hypernym of", "Gr>G", "x/made_by")
    names = Relations(SimpleNamespace(relation_names=given))
    short = ("hypernym", "/a/b/born_in", "/c/born_in", "made_by", "hypernym_of", "Gr>G", "x/made_by")
    assert names.shown == short
    asked = ("_hypernym", "hypernym", "rel:hypernym of", "Gr%3EG", "made by", "nothing")
    assert [names.find(one) for one in asked] == [0, 0, 4, 5, 3, None]


@pytest.mark.parametrize(("relation", "target"), [("Gr>G", "n1"), ("directed_by", "n2"), ("hypernym", "n3")])
def test_sparql_and_the_tools_take_a_relation_as_it_is_shown(odd, relation, target):
    shown = use(odd, "search_neighbors", entity_id="n0", relation=relation).text
    assert f"-- {relation} --> Node {target[1:]} ({target})" in shown
    rows = use(odd, "execute_query", query=f"SELECT ?x {{ node:n0 rel:{relation} ?x . FILTER(?x != node:n9) }}")
    assert rows.nodes == (target,)
    assert f"- {relation}: 1, such as Node {target[1:]}" in use(odd, "find_relations", entity_id="n0").text


def test_the_prompt_lists_the_relations_that_fit_the_question_and_the_tool_finds_the_others(odd):
    about = Schema(odd)("Who is the director by whom this film was directed?")
    assert len(about["relations"]) == RELATIONS
    assert about["relations"][0]["name"] == "directed_by"
    assert about["more_relations"] == len(odd.skb.relation_names) - RELATIONS
    assert odd.execute_query(about["example"]).rows  # of this graph, and it runs
    listed = {one["name"] for one in about["relations"]}
    hidden = next(one for one in odd.skb.meta.tuples if odd.relations.display(one.relation) not in listed)
    assert odd.relations.display(hidden.relation) in use(odd, "find_relations", query=hidden.relation).text
    assert "No relation has words" in use(odd, "find_relations", query="zzz").text
    assert not use(odd, "find_relations").ok
    told = use(odd, "search_neighbors", entity_id="n0", relation="director").text
    assert told.startswith("there is no relation 'director' in")
    assert "directed_by" in told


def test_paths_are_followed_and_what_all_lead_to_is_shown(village):
    both = use(
        village,
        "follow_paths",
        paths=[{"entity_ids": ["p1"], "relations": ["owns"]}, {"entity_ids": ["p2"], "relations": ["owns"]}],
    )
    assert both.text.splitlines() == [
        "1 node that all paths lead to.",
        "Long Barn (h2): house; A green house.",
        "Each path by itself:",
        "- p1 by owns: 2 nodes",
        "- p2 by owns: 2 nodes",
    ]
    assert both.nodes == ("h2",)
    towns = use(village, "follow_paths", paths=[{"entity_ids": ["p1", "p2"], "relations": ["owns", "located_in"]}])
    assert set(towns.nodes) == {"t1", "t2"}
    none = use(village, "follow_paths", paths=[{"entity_ids": ["t2"], "relations": ["^located_in"]}], node_type="town")
    assert none.nodes == ()
    assert not use(village, "follow_paths", paths=[{"entity_ids": ["p1"], "relations": []}]).ok


def test_fields_of_many_nodes_are_read_at_once(village):
    read = use(village, "get_fields", entity_ids=["h1", "t1"], fields=["description", "height"])
    assert read.text.splitlines() == [
        "The Mill (h1): description: A red house with a wheel.",
        "Coldwick (t1): description: A market town.",
        "No field height here; there are: description.",
    ]
    assert read.nodes == ("h1", "t1")


@pytest.mark.parametrize(("query", "pattern"), [("Harps", 'field:instrument "harp"'), ("1772", "field:made 1772")])
def test_a_search_says_how_many_nodes_have_its_words_as_the_value_of_a_field(demo_kb, query, pattern):
    text = use(demo_kb, "search_entities", query=query).text
    [(number, found)] = [one for one in re.findall(r"(\d+) nodes? \(`(.*?)`\)", text) if pattern in one[1]]
    assert len(demo_kb.execute_query(f"SELECT ?x {{ {found} }}").rows) == int(number) > 0
    assert "field:" not in use(demo_kb, "search_entities", query="Heron").text


def test_a_number_that_is_stored_as_a_text_is_told_as_one_and_fields_stand_in_one_line(tmp_path):
    node = {"id": "a", "type": "t", "name": "Ash", "year": "1999", "odd\nname": 1999, "none": "", "some": ["x"]}
    nodes: list[dict[str, object]] = [
        {**node, "day": "2024-03-01", "text": "a " * 99},
        {"id": "b", "type": "t", "day": "no"},
    ]
    with closing(skb_of(tmp_path, nodes, [])) as kb:
        text = use(kb, "search_entities", query="1999").text
        fields = 'year: text ("1999")', "odd name (field:odd%0Aname): number (1999)", "none", 'some: list (["x"])'
        long = f'text: text ("{"a " * 14}…)'
        assert Schema(kb)("")["types"][0]["fields"] == [*fields, 'day: date as text or text ("2024-03-01", "no")', long]
    assert {'`?x field:year "1999"`', "`?x field:odd%0Aname 1999`"} == set(re.findall("`.*?`", text))


@pytest.mark.parametrize("error", [QueryTimeout, ServiceError])
def test_a_search_finds_what_it_finds_where_the_triples_do_not_answer(demo_kb, monkeypatch, error):
    monkeypatch.setattr(demo_kb, "execute_query", Mock(side_effect=error("It is too busy.")))
    assert "these mention its words" in use(demo_kb, "search_entities", query="Harps").text


def test_the_prompt_of_a_small_graph_names_its_fields_and_differs_only_in_what_a_question_names(demo_kb):
    given = {"tools": ["search_neighbors"], "steps": 9, "parallel": True, "answers": 20}
    plain, named = (
        render("skb/policy.md", **given, **Schema(demo_kb)(asked))
        for asked in ("Who makes lutes?", "Who is the owner of the Clock Harp?")
    )
    assert re.search(r'fields: made: number \(\d+, \d+\); instrument: text \("\w+"', plain)
    assert re.match(r"Nodes whose .*: The Clock Harp \(", named.removeprefix(plain).strip())


def test_every_list_of_nodes_has_a_line_of_each_document(village):
    assert "The Mill (h1): house; A red house with a wheel." in use(village, "search_entities", query="The Mill").text
    near = use(village, "vector_query", text="house by the sea").text
    assert re.match(r"Old Forge \(h3\), score 0\.\d+: house; A red house by the sea\.", near)
    linked = use(village, "search_neighbors", entity_id="p1", relation="owns").text.splitlines()
    assert linked[1] == "-- owns -->"
    assert "- The Mill (h1): A red house with a wheel." in linked
    alone = use(village, "search_neighbors", entity_id="p1", relation="painted").text.splitlines()
    assert alone[1].startswith("-- painted --> Old Forge (h3): A red house")


@pytest.mark.parametrize(
    ("fields", "about", "line"),
    [
        ({"wikipedia": "https://x.org/A", "aliases": ["B"], "summary": "A tall tower."}, "", "A tall tower."),
        ({"summary": "A tall tower. Built of iron."}, "What is made of iron?", "Built of iron."),
        ({"entrez_id": "1234", "_id": "x", "score": 0.9, "kind": "gene"}, "", "kind: gene"),
        ({"bto_id": "BTO:1", "url": "www.x.org"}, "", ""),
        ({"license": "Disease Ontology CC BY 3.0 (CC0 now)", "text": "It wastes the muscles."}, "Which disease?",
         "It wastes the muscles."),
        ({"details": {"notes": [{"text": "It was lost in the great fire."}]}}, "", "It was lost in the great fire."),
    ],
)  # fmt: skip
def test_an_excerpt_is_chosen_for_what_it_says(fields, about, line):
    assert excerpt(fields, "A", about=about, without=("aliases",)) == line


def test_in_a_graph_of_one_type_nothing_speaks_of_types_and_common_words_name_no_node(tmp_path, village):
    nodes: list[dict[str, object]] = [
        {"id": "actor", "type": "thing", "name": "actor", "description": "One who acts."},
        {"id": "ann", "type": "thing", "name": "Ann Lee", "description": "An actor of Hull."},
        {"id": "bob", "type": "thing", "name": "Bob Roe", "description": "An actor of Bath."},
    ]
    films = [
        {"id": f"m{n}", "type": "thing", "name": f"Movie {n}", "description": "Made with an actor."} for n in range(30)
    ]
    edges = [("ann", "spouse", "bob"), ("bob", "spouse", "ann"), *((f"m{n}", "cast member", "ann") for n in range(8))]
    kb = skb_of(tmp_path, [*nodes, *films], edges, vectors=True)
    for graph, typed in ((kb, False), (village, True)):
        assert ("node_type" in json.dumps(hide_single_type(Toolbox.for_kb(graph, SKB_TOOLS), graph).schemas)) is typed
        given = {"tools": ["search_neighbors"], "steps": 9, "parallel": True, "answers": 20}
        assert ("type" in render("skb/policy.md", **given, **Schema(graph)("?"))) is typed
    look = use(kb, "get_entry", entity_id="ann").text
    assert look.count("Bob Roe") == 1
    assert "- ^cast_member: Movie 0 (m0); Movie 1 (m1); " in look
    told = [look, use(kb, "search_entities", query="Ann Lee").text, use(kb, "find_relations", query="spouse").text]
    told.append(use(kb, "follow_paths", paths=[{"entity_ids": ["ann"], "relations": ["spouse"]}]).text)
    told.append(use(kb, "get_entry", entity_ids=["ann", "bob"]).text)
    assert "thing" not in "\n".join(told)
    assert [Schema(kb)(question)["starts"] for question in ("Which actor starred most?", "Who knows Ann Lee?")] == [
        [],
        ["Ann Lee (ann)"],
    ]
    # By its vector every film is near to a query; only the words tell what matches it.
    matched, other = use(kb, "search_neighbors", entity_id="ann", query="spouse").text.split("These do not match")
    assert "Bob Roe (bob)" in matched
    assert "Movie" not in matched
    assert other.endswith("; and 3 more")
    kb.close()


def test_several_nodes_are_looked_at_in_one_call_and_what_is_cut_is_named(tmp_path):
    long = "Of stone. " + "It rained. " * 40 + "A red door leads in."
    houses = [{"id": f"h{n}", "type": "house", "name": f"House {n}", "description": long} for n in range(7)]
    people = [{"id": p, "type": "person", "name": p.title(), "description": "A miller."} for p in ("ann", "bob")]
    edges = [*(("ann", "owns", f"h{n}") for n in range(7)), ("bob", "owns", "h0"), ("bob", "painted", "h1")]
    kb = skb_of(tmp_path, [*houses, *people], edges)
    seen = use(kb, "get_entry", "Who has a red door?", entity_ids=["ann", "bob", "h0", "nobody"])
    ann, bob, house, nobody = (part.splitlines() for part in seen.text.split("\n\n"))
    assert ann[0] == "Ann (ann): person"
    assert ann[-2:] == [
        "- owns: House 0 (h0); House 1 (h1); House 2 (h2); House 3 (h3); House 4 (h4)",
        "Not shown: owns ×2.",
    ]
    assert bob[-2:] == ["- owns: House 0 (h0)", "- painted: House 1 (h1)"]
    whole = kb.get_entry("h0").document.strip()
    assert "red door" in house[1]
    assert house[1].endswith(f"(of a document of {len(whole):,} characters)")
    assert "- ^owns: Ann (ann); Bob (bob)" in house
    assert "nobody" in nobody[0]
    assert set(seen.nodes) == {"ann", "bob", "h0", "h1", "h2", "h3", "h4"}  # what is not shown cannot be answered
    linked = use(kb, "search_neighbors", entity_ids=["ann", "bob"], relation="owns").text.split("\n\n")
    assert linked[0].splitlines()[0] == "Ann (ann): 7 edges, the first 5 shown."
    assert linked[0].splitlines()[1] == "-- owns -->"
    assert len(linked[0].splitlines()) == 7
    assert linked[1].splitlines()[0] == "Bob (bob): 1 edge."
    # one of them is as one alone, and none or too many are refused
    assert use(kb, "get_entry", entity_ids=["ann"]) == use(kb, "get_entry", entity_id="ann")
    for tool in ("get_entry", "search_neighbors"):
        for wrong in ({}, {"entity_ids": [f"h{n}" for n in range(11)]}):
            assert use(kb, tool, **wrong).text == f"{tool}: give entity_id, or two to 10 entity_ids."
    lost = use(kb, "search_neighbors", entity_ids=["ann", "bob"], relation="eats")
    assert not lost.ok
    assert lost.text.count("there is no relation 'eats'") == 1
    kb.close()


def test_a_name_that_no_node_has_is_said_with_the_nearest_by_name_and_those_by_meaning_are_begun_with(demo_kb):
    match = open_match(demo_kb, "hybrid")
    found = match("Which ship built by Marit Skarow was painted yellow?")
    assert (found.nodes[0], len(found.nodes), found.named) == ("person:marit-skarrow", 10, False)
    assert found.notes == ["No node is called “Marit Skarow”; nearest by name: Marit Skarrow (person:marit-skarrow)."]
    assert match("Who works at Gullwing Yard?").notes == ["No node is called “Gullwing Yard”."]
    assert match("Which ship was built by Marit Skarrow?").notes == []


@pytest.mark.parametrize(
    "name", ["Parkinsons disease", "Parkinson's disease", "Parkinson’s disease", "Parkinsn disease"]
)
def test_an_apostrophe_or_a_letter_that_is_missing_does_not_hide_a_name_of_several_words(tmp_path, name):
    kb = skb_of(tmp_path, [{"id": "d", "type": "disease", "name": "Parkinson's disease"},
                           {"id": "e", "type": "effect", "name": "Parkinsonism"}], [])  # fmt: skip
    found = open_match(kb, "hybrid")(f"Which parts does {name} affect?")
    assert (list(found.nodes), found.named) == (["d"], True)
    assert bool(found.notes) == (name == "Parkinsn disease")
    kb.close()


def test_every_sentence_of_the_demo_with_two_words_changed_finds_its_node_among_the_first_three(demo_kb):
    asked = drawn(as_skb(demo_kb, "this test"), 60)
    ranks = [rank(demo_kb.vector_query(one.text, limit=20).ids, one.right) for one in asked]
    assert len(asked) == 60
    assert all(1 <= place <= 3 for place in ranks)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("Which ship built by Marit Skarow was painted yellow?", ["Marit Skarow"]),
        ('Who owns the "old forge", and what does Radium do?', ["old forge", "Radium"]),
        ("Radium was found in the United States of America. By whom?", ["United States of America"]),
        ("Is it Berlin, Paris or New York?", ["Berlin", "Paris", "New York"]),
        ("Who are the children of The von Trapp Family?", ["von Trapp Family"]),
        ("Which of the Ann Reed houses?", ["Ann Reed"]),
        ("what is it?", []),
    ],
)
def test_names_in_a_question_are_those_with_capitals_or_in_quotation_marks(question, names):
    assert unmatched_names(question, []) == names
