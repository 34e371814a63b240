"""The SKB agent with a scripted model: its tools, when it may finish, what it answers, and what the model is told.

The demo SKB's facts are those of its two files: the Heron was built by Jacca Penrose, and so on.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

import kbnav
from kbnav.agents.skb import skb_offline, skb_with
from kbnav.answers.tables import Ranked, Ranking
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import Run, load_run
from kbnav.sessions.session import Chat, ask, sqlite_sessions
from kbnav.settings.model import Settings

DEMO = Path(kbnav.__file__).parent / "data" / "demo"
NODES = {node["id"]: node for node in map(json.loads, (DEMO / "nodes.jsonl").read_text(encoding="utf-8").splitlines())}
EDGES = [tuple(line.split("\t")) for line in (DEMO / "edges.tsv").read_text(encoding="utf-8").splitlines()[1:]]
BUILDER = "person:kerra-penrose"
SHIPS = sorted(source for source, relation, target in EDGES if (relation, target) == ("built by", BUILDER))

LOOK = says(("search_neighbors", {"entity_id": BUILDER, "relation": "built by", "direction": "in"}))


def finish(*nodes: str, thought: str = "All of them.") -> AIMessage:
    return says(("finish", {"nodes": list(nodes)}), thought=thought)


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
    assert run.outcome.ranking is not None
    assert list(run.outcome.ranking.ids) == [SHIPS[0]]


def test_no_answer_may_be_said_once_something_was_looked_at(demo_kb, tmp_path):
    run = asked(demo_kb, tmp_path, finish(), LOOK, finish(thought="She built none."))
    assert [step.dropped for step in run.steps] == ["premature finish", "", ""]
    assert (run.outcome.status, run.outcome.note) == ("no answer", "She built none.")
    assert run.outcome.ranking is None


def test_out_of_budget_the_nodes_seen_most_and_first_are_returned_and_marked(demo_kb, tmp_path):
    replies = [
        LOOK,
        says(("execute_query", {"query": f"SELECT ?x WHERE {{ ?x rel:built_by node:{BUILDER} }} ORDER BY ?x"})),
        says(("search_entities", {"query": "Gannet"})),
    ]
    run = asked(demo_kb, tmp_path, *replies, steps=3)
    assert (run.outcome.status, run.outcome.stop) == ("best effort", "step budget")
    assert run.outcome.ranking is not None
    assert set(run.outcome.ranking.ids[: len(SHIPS)]) == set(SHIPS)
    assert BUILDER not in run.outcome.ranking.ids
    assert all(node.score < 1 / 20 for node in run.outcome.ranking.nodes)


def test_a_run_that_saw_nothing_has_no_answer(demo_kb, tmp_path):
    run = asked(demo_kb, tmp_path, says(("search_entities", {"query": "zzzzqqqq"})), steps=1)
    assert run.outcome.status == "no answer"
    assert run.path[0].nodes == ()


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
    run = asked(demo_kb, tmp_path, *calls, finish())
    best, *shown = run.path[:3]
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
        assert first.outcome.ranking is not None
        ship = first.outcome.ranking.nodes[0]
        run = Chat(skb_offline(demo_kb, settings), "s", saver).ask("Which materials were carried by it?")
    carried = {target for source, relation, target in EDGES if (source, relation) == (ship.id, "carried")}
    assert carried
    assert run.outcome.ranking is not None
    assert set(run.outcome.ranking.ids) == carried
    assert run.history[0].outcome.ranking == first.outcome.ranking


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
