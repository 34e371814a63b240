"""What is shown as having gone well and badly, and which names stay out of instructions."""

from dataclasses import replace
from typing import Any

from kbnav.programs.first_stage import TrainingQuery
from kbnav.programs.steps import Trial
from kbnav.programs.writer import (
    ContrastText,
    Setting,
    describe_trial,
    document_pair,
    names_in,
    split,
    standing,
    without_names,
)
from kbnav.prompts import render


def trial(name: str, hit5: float, mrr: float, error: str = "") -> Trial:
    query = TrainingQuery(name, f"query {name}", ("a", "z"))
    return Trial(query, ("b", "a", "c"), {"b": 0.5, "a": 0.25}, {"hit@5": hit5, "mrr": mrr}, error)


def placed(name: str, *ranks: int | None, error: str = "", debug: str = "") -> Trial:
    """A query whose answers came at these ranks of 100, None: nowhere."""
    at = {rank: f"a{place}" for place, rank in enumerate(ranks) if rank}
    first = min(at, default=0)
    metrics = {"hit@5": float(0 < first <= 5), "mrr": 1 / first if first else 0.0}
    ranking = tuple(at.get(place, f"n{place}") for place in range(1, 101))
    query = TrainingQuery(name, f"query {name}", tuple(f"a{place}" for place in range(len(ranks))))
    return Trial(query, ranking, {}, metrics, error, debug)


def sides(*trials: Trial, **more: Any) -> tuple[list[str], list[str]]:
    found = split(trials, **more)
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
    assert (found.went_well, found.whole, found.queries) == (4, 1, 8)
    assert sides(*trials, shown=1) == (["whole"], ["nowhere"])


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
    shown = ContrastText((), (), {"mrr": 0.5, "recall@20": 0.5}, documents=told)
    prompt = render(
        "agent_retriever/reflect.md",
        setting=Setting("", "", "", ""),
        pattern="",
        source="",
        shown=shown,
        contrast=split([]),
    )
    assert prompt.index("Text of a") < prompt.index("Text of b") < prompt.index("# Your task")
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
        "Right answers: Ann (a) at rank 2 with 0.25; Zoe (z) not among the first 3"
    )


def test_an_answer_that_is_no_candidate_is_told_apart_from_one_that_ranks_low():
    told = replace(trial("1", 1.0, 0.5), candidates=("a", "b", "c", "z"))
    assert describe_trial(told, str).endswith("z (z) not among the first 3, though a candidate")
    assert describe_trial(replace(told, candidates=("a", "b", "c")), str).endswith("z (z) no candidate")
