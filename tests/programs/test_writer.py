"""What a model is told at each step, what is shown of good and bad runs, and how a reply is read."""

from dataclasses import replace

from langchain_core.messages import AIMessage

from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.program import Program
from kbnav.programs.steps import Comparison, History, Step, Trial
from kbnav.programs.train import Task, train_group
from kbnav.programs.writer import (
    Brief,
    ModelWriter,
    Setting,
    describe_trial,
    document_pair,
    names_in,
    program_in,
    split,
    standing,
    without_names,
)
from kbnav.runs.trajectory import Trace
from tests.programs.parts import Runner, ScriptedWriter, plan, program, queries, query, workshop

SETTING = Setting(
    *("a shelf of books", "- book --by--> author (9)", "- book: name, year", "def names_of(ids): ..."),
    "It runs in Basic.",
)


def writer(*replies: str) -> tuple[ModelWriter, ScriptedModel]:
    model = ScriptedModel(replies=[AIMessage(reply) for reply in replies])
    return ModelWriter(ModelCalls(model, "scripted"), SETTING), model


def prompts(model: ScriptedModel) -> list[str]:
    return [str(messages[-1].text) for messages in model.seen]


def test_the_program_is_the_last_block_that_defines_an_entry():
    assert program_in("```python\nx = 1\n```\nand\n```py\ndef score(q, c):\n    pass\n```\n```\nnothing\n```") == (
        "def score(q, c):\n    pass\n"
    )
    assert program_in("```\nx = 1\n```") == "x = 1\n"
    assert program_in("def retrieve(query):\n    return {}") == "def retrieve(query):\n    return {}\n"


def test_a_training_by_a_model_tells_it_what_came_of_its_programs():
    replies = [
        *(f"```python\n{program('middling')}```", "Trust relations, not Node 9."),
        *(f"```python\n{program('crash')}```", f"```python\n{program('good')}```", "Fine."),
    ]
    author, model = writer(*replies)
    shop = replace(workshop(ScriptedWriter([]), Runner()), writer=author)
    validation = queries(32, "v")
    task = Task("g1", "books of a year", queries(40), validation, shop.bench.baseline(validation))
    history, _ = train_group(task, History(), plan(steps=3, batch=40), shop, lambda step: None)
    assert [step.accepted for step in history.steps] == [True, False, True]
    first, reflect, second, third, _ = prompts(model)
    for told in ("a shelf of books", "book --by--> author", "name, year", "def names_of", "books of a year"):
        assert told in first
    assert "Write the first program." in first
    assert "0.3250 MRR" in first
    assert sum(f"- {one.text} (1)" in first for one in queries(40)) == 20
    well, _, badly = reflect.partition("# What it did badly, or less well")
    assert badly.count("Query: ") == 5  # those whose answer came second
    assert "It was run on 40 queries: 0.6250 MRR, 1.0000 recall@20.\n40 of 40 went well: " in well
    assert "10 of 40 went as well as they can" in well
    assert "Right answers: Node 0 (n0) at rank 1 with 200" in well
    assert (
        "Program of step 1: 0.6250 MRR, 0.2500 hit@1 on the 32 validation queries; on 24 no right answer stands first, "
        "and 0 ended with an error, accepted" in second
    )
    assert second.count(program("middling")) == 1  # which is the best and the last
    assert "It is the program of step 1 above." in second
    assert "better on 24, worse on 0, an error on 0" in second
    assert "Trust relations, not [a name]." in second
    assert "Write a better program." in second
    assert "It ended with an error on 40 of these queries, first with: line 2: ZeroDivisionError" in third
    assert "It told by debug, on queries that ended so:\nQuery: t query" in third
    assert third.count("I got here") == 3
    assert third.count("Trust relations") == 1  # it is still to be followed, and nothing came of it yet
    assert "What to change in the program of step 1, from what it ranked well and badly:\nTrust relations" in third
    assert "without the error" in third


def test_advice_is_told_apart_by_what_it_led_to():
    author, model = writer("```python\nx\n```")
    best = Step(1, "write", program("good"), "a", "Advice 1.", batch=("t1",), accepted=True)
    steps = [
        replace(best, validation={"mrr": 0.7, "hit@1": 0.2}, validated=(1.0, 0.4), compared=Comparison(0.7, 0.5, 1.0))
    ]
    for number, (mean, failed) in enumerate([(0.7, 0), (0.6, 0), (0.8, 0), (0.7, 1)], 2):
        more = {"compared": Comparison(mean, 0.7, 1.0), "accepted": False, "failed": failed}
        steps.append(replace(best, number=number, instruction=f"Advice {number}.", **more))
    author.write(Brief("improve", 6, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History(tuple(steps))), Trace())
    (told,) = prompts(model)
    for advice, led_to in enumerate(
        ("the same", "worse", "higher, but by no more than chance may do", "a program that failed"), 1
    ):
        before, _, after = told.partition(f"Advice {advice}.")
        assert led_to in before.rpartition("What was advised before")[2].splitlines()[0]
        assert "Advice" not in after.splitlines()[0]
    assert "Advice 1." not in History((steps[0], replace(steps[1], action="anew"))).lessons()


def test_a_fresh_start_does_not_show_the_last_program_but_the_best():
    author, model = writer("```python\nx\n```")
    best = Step(1, "write", program("good"), "a", batch=("t1",), validation={"mrr": 0.7, "hit@1": 0.2}, accepted=True)
    last = Step(2, "improve", program("bad"), "b", "Advice.", batch=("t1",), metrics={"mrr": 0.1, "hit@1": 0.0})
    author.write(Brief("anew", 3, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History((best, last))), Trace())
    (told,) = prompts(model)
    assert program("good") in told
    assert program("bad") not in told
    assert "in another way" in told


def trial(name: str, hit5: float, mrr: float, error: str = "") -> Trial:
    query = LabelledQuestion(f"query {name}", ("a", "z"), id=name)
    return Trial(query, ("b", "a", "c"), {"b": 0.5, "a": 0.25}, {"hit@5": hit5, "mrr": mrr}, error)


def placed(name: str, *ranks: int | None, error: str = "", debug: str = "") -> Trial:
    """A query whose answers came at these ranks of 100, None: nowhere."""
    at = {rank: f"a{place}" for place, rank in enumerate(ranks) if rank}
    first = min(at, default=0)
    metrics = {"hit@5": float(0 < first <= 5), "mrr": 1 / first if first else 0.0}
    ranking = tuple(at.get(place, f"n{place}") for place in range(1, 101))
    query = LabelledQuestion(f"query {name}", tuple(f"a{place}" for place in range(len(ranks))), id=name)
    return Trial(query, ranking, {}, metrics, error, debug)


def sides(*trials: Trial) -> tuple[list[str], list[str]]:
    found = split(trials)
    return [one.query.id for one in found.well], [one.query.id for one in found.badly]


def test_of_either_side_the_most_telling_stand_first_by_first_answer_and_all_answers():
    trials = [
        placed("second", 2),  # (1/2 + 1) / 2
        placed("late", 10),  # hit@5 0
        placed("whole", 1, 2, 3),
        placed("nowhere", None),
        placed("mostly", 1, 3, None),  # two of three found
        placed("half", 1, None),  # one of two found: not more than half
        placed("fifth", 5),
        placed("sixth", 6),
    ]
    found = split(trials)
    # (1 + 1) / 2, (1 + 2/3) / 2, (1/2 + 1) / 2, (1/5 + 1) / 2; and 0, (1/10 + 1) / 2, (1/6 + 1) / 2, (1 + 1/2) / 2
    assert [round(standing(one), 3) for one in found.well] == [1.0, 0.833, 0.75]
    assert sides(*trials) == (["whole", "mostly", "second"], ["nowhere", "late", "sixth", "half", "fifth"])
    assert (found.went_well, found.whole, found.failed) == (4, 1, 0)


def test_where_few_went_badly_those_that_could_go_better_are_shown_in_their_place():
    whole = [placed(f"whole{n}", 1) for n in range(6)]
    assert sides(*whole, placed("below", 1, 3), placed("bad", 30)) == (
        ["whole0", "whole1", "whole2", "whole3", "whole4"],
        ["bad", "below"],
    )
    assert sides(*whole[:2]) == (["whole0", "whole1"], [])


def test_a_right_and_a_wrong_document_of_the_worst_query_are_told():
    told = document_pair(trial("1", 1.0, 0.5), lambda node: f"Text of {node}")
    assert told == ["Text of a", "Text of b"]
    author, model = writer("Fine.")
    brief = Brief("write", 1, "", [], {}, History())
    bad = split(workshop(ScriptedWriter([])).bench.run(Program.read(program("bad")), [query(1)]))
    author.reflect(brief, "", bad, str, lambda node: f"Text of {node}", Trace())
    (prompt,) = prompts(model)
    assert prompt.index("Text of n9") < prompt.index("Text of n29") < prompt.index("# Your task")
    assert document_pair(placed("2", None), str) == ["a0", "n1"]


def test_names_of_the_nodes_shown_and_of_what_the_queries_name_are_replaced():
    contrast = split([trial("1", 1.0, 1.0)])
    names = names_in(contrast, lambda node: {"b": "Bob Boat", "a": "key"}.get(node, node), lambda text: ["Averhythe"])
    assert names == ["Averhythe", "Bob Boat", "key"]
    advice = "Boost BOB BOAT and 'key'; use the key of the dictionary, not Averhythe."
    assert without_names(advice, names) == (
        "Boost [a name] and '[a name]'; use the key of the dictionary, not [a name]."
    )
    assert without_names("Bob Boats is another", names) == "Bob Boats is another"


def test_a_query_is_told_with_first_predictions_their_scores_and_the_ranks_of_the_truth():
    assert describe_trial(trial("1", 1.0, 0.5), {"a": "Ann", "b": "Bob", "c": "Cy", "z": "Zoe"}.__getitem__) == (
        "Query: query 1\nFirst predictions:\n1. Bob (b) 0.5\n2. Ann (a) 0.25\n3. Cy (c)\n"
        "Right answers: Ann (a) at rank 2 with 0.25; Zoe (z) no candidate"
    )


def test_an_answer_that_is_no_candidate_is_told_apart_from_one_that_ranks_low():
    told = replace(trial("1", 1.0, 0.5), candidates=("a", "b", "c", "z"))
    assert describe_trial(told, str).endswith("z (z) not among the first 3, though a candidate")
