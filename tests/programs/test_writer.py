"""What a model is told at each step, and how a program is read out of its reply."""

from dataclasses import replace

from langchain_core.messages import AIMessage

from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.steps import Comparison, History, Step
from kbnav.programs.train import Task, train_group
from kbnav.programs.writer import Brief, ContrastText, ModelWriter, Rejected, Setting, program_in, split
from kbnav.runs.trace import Trace
from tests.programs.parts import Runner, ScriptedWriter, plan, program, queries, workshop

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


def test_what_is_wrong_before_a_run_is_told_with_its_source_and_the_last_program_left_out():
    author, model = writer("```python\nx\n```")
    last = Step(1, "write", program("good"), "a", "Advice.", batch=("t1",), metrics={"mrr": 0.1, "hit@1": 0.0})
    rejected = (Rejected("first = 1\n", "type check, before running: line 1: no"), Rejected("second = 2\n", "worse"))
    brief = Brief("improve", 2, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History((last,)), rejected=rejected)
    author.write(brief, Trace())
    (told,) = prompts(model)
    assert "You wrote, and it did not run:\n```python\nfirst = 1\n```\ntype check, before running: line 1: no" in told
    assert (
        told.index("first = 1") < told.index("second = 2") < told.index("Write the program again without what is wrong")
    )
    assert program("good") not in told
    assert "Advice." in told


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


def test_where_every_query_went_as_well_as_it_can_no_advice_is_asked_for():
    author, model = writer("Well done.")
    brief = Brief("improve", 2, "books", queries(2), {"mrr": 0.3, "hit@1": 0.1}, History())
    for mrr, said in ((1.0, ""), (0.99, "Well done.")):
        shown = ContrastText((), (), {"mrr": mrr, "hit@1": mrr, "hit@5": 1.0, "recall@20": 1.0})
        assert author.reflect(brief, program("good"), split(()), shown, Trace()) == said
    assert len(model.seen) == 1


def test_the_writer_is_told_what_can_be_reached_the_leaders_own_error_and_which_program_advice_is_about():
    author, model = writer("```python\nx\n```")
    done = {"validation": {"mrr": 0.7, "hit@1": 0.2}, "validated": (1.0, 0.4), "accepted": True}
    first = Step(
        1, "write", program("good"), "a", "Use links.", batch=("t1",), failed=1, error="line 7: KeyError", **done
    )
    second = Step(2, "improve", program("bad"), "b", "Use words.", batch=("t1",), metrics={"mrr": 0.1, "hit@1": 0.0})
    history = History((replace(first, compared=Comparison(0.7, 0.5, 0.01)), second))
    author.write(Brief("improve", 3, "books", [], {"mrr": 0.3, "hit@1": 0.1}, history, reachable=0.5), Trace())
    (told,) = prompts(model)
    assert "0.50 are among the candidates" in told
    leader = told[told.index("Program of step 1") : told.index("What was advised")]
    assert "line 7: KeyError" in leader
    assert "step 1: Use links." in told
    assert "the program of step 2, from what it ranked well and badly:\nUse words." in told


def test_a_fresh_start_does_not_show_the_last_program_but_the_best():
    author, model = writer("```python\nx\n```")
    best = Step(1, "write", program("good"), "a", batch=("t1",), validation={"mrr": 0.7, "hit@1": 0.2}, accepted=True)
    last = Step(2, "improve", program("bad"), "b", "Advice.", batch=("t1",), metrics={"mrr": 0.1, "hit@1": 0.0})
    author.write(Brief("anew", 3, "books", [], {"mrr": 0.3, "hit@1": 0.1}, History((best, last))), Trace())
    (told,) = prompts(model)
    assert program("good") in told
    assert program("bad") not in told
    assert "in another way" in told
