"""The writer that is no model: which program it changes, and what it learns of debug output."""

from __future__ import annotations

from dataclasses import replace

from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.program import Program
from kbnav.programs.standin_writer import StandInWriter
from kbnav.programs.steps import History, Step, Trial
from kbnav.programs.writer import Brief, ContrastText, Draft, split
from kbnav.runs.trace import Trace

FUNCTIONS = ("texts_of", "names_of", "relations_of", "find_by_name", "token_recall", "search", "bm25", "similarity")
TUNED = 'PARAMETERS = {"a": 2.0}\n\n\ndef score(query, candidates, a):\n    return {}\n'
ACCEPTED = Step(1, "write", "x = 1\n", {}, "1", validation={"mrr": 0.4}, accepted=True, batch=("t",))


def brief(number: int, *steps: Step) -> Brief:
    return Brief("improve", number, "things", [], {}, History(steps))


def test_it_begins_with_its_templates_and_reads_as_programs():
    writer = StandInWriter(FUNCTIONS)
    drafts = [writer.write(brief(number), Trace()) for number in (1, 2, 3)]
    assert [Program.read(draft.source).entry for draft in drafts] == ["score", "retrieve", "retrieve"]
    without = StandInWriter([name for name in FUNCTIONS if name != "relations_of"])
    assert Program.read(without.write(brief(2), Trace()).source).entry == "score"


def test_it_changes_what_is_best_in_validation_whether_that_was_accepted_or_not():
    """One is surely better by little, the other better by much on few queries: the test decides, not the search."""
    better = Step(2, "improve", TUNED, {}, "2", validation={"mrr": 0.5}, batch=("t",))
    draft = StandInWriter(FUNCTIONS).write(brief(5, ACCEPTED, better), Trace())
    assert draft.source == TUNED
    assert draft.parameters["a"] in (0.0, 0.6, 6.0, 1.2, 3.2)  # 2 times each factor
    tried = replace(better, number=3, parameters=draft.parameters, validation={"mrr": 0.45})
    other = StandInWriter(FUNCTIONS).write(brief(6, ACCEPTED, better, tried), Trace())
    assert other.source == TUNED
    assert other.parameters != draft.parameters


def test_it_counts_which_paths_led_to_right_and_to_wrong_nodes_beside_which_words():
    query = TrainingQuery("t", "who made it", ("a",))
    trial = Trial(query, ("a", "b"), {}, {}, debug="words: made who\na\tmade_by\nb\tmade_by\nb\towned_by")
    advice = StandInWriter(FUNCTIONS).reflect(
        brief(1), Draft(""), split(()), ContrastText((), (), {}, [trial]), Trace()
    )
    assert '"right": {"made_by": {"": 1, "made": 1, "who": 1}}' in advice.notes
    assert '"wrong": {"owned_by": {"": 1}}' in advice.notes
