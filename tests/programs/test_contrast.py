"""What is shown as having gone well and badly, and which names stay out of instructions."""

from __future__ import annotations

from kbnav.programs.contrast import described, names_in, split, without_names
from kbnav.programs.trials import TrainingQuery, Trial


def trial(name: str, hit5: float, mrr: float, error: str = "") -> Trial:
    query = TrainingQuery(name, f"query {name}", ("a", "z"))
    return Trial(query, ("b", "a", "c"), {"b": 0.5, "a": 0.25}, {"hit@5": hit5, "mrr": mrr}, error)


def test_queries_at_the_threshold_went_well_and_the_most_telling_stand_first():
    trials = [
        trial("1", 1.0, 0.25),
        trial("2", 0.0, 0.1),
        trial("3", 1.0, 1.0),
        trial("4", 0.0, 0.0),
        trial("5", 0.5, 0.5),
    ]
    found = split(trials)
    assert [one.query.id for one in found.well] == ["3", "5", "1"]
    assert [one.query.id for one in found.badly] == ["4", "2"]
    assert (found.went_well, found.queries) == (3, 5)
    assert [one.query.id for one in split(trials, shown=1).badly] == ["4"]
    assert split(trials, threshold=0.6).went_well == 2


def test_a_trial_that_failed_is_on_neither_side():
    found = split([trial("1", 1.0, 1.0, "line 1: no"), trial("2", 0.0, 0.0, "line 1: no"), trial("3", 0.0, 0.0)])
    assert (found.well, [one.query.id for one in found.badly], found.queries) == ((), ["3"], 1)


def test_a_query_is_told_with_first_predictions_their_scores_and_the_ranks_of_the_truth():
    assert described(trial("1", 1.0, 0.5), {"a": "Ann", "b": "Bob", "c": "Cy", "z": "Zoe"}.__getitem__) == (
        "Query: query 1\nFirst predictions:\n1. Bob (b) 0.5\n2. Ann (a) 0.25\n3. Cy (c)\n"
        "Right answers: Ann (a) at rank 2 with 0.25; Zoe (z) not among the first 3"
    )


def test_names_of_the_nodes_shown_and_of_what_the_queries_name_are_replaced():
    contrast = split([trial("1", 1.0, 1.0)])
    names = names_in(contrast, lambda node: {"b": "Bob Boat", "a": "key"}.get(node, node), lambda text: ["Averhythe"])
    assert names == ["Averhythe", "Bob Boat", "key"]
    advice = "Boost BOB BOAT and 'key'; use the key of the dictionary, not Averhythe."
    assert without_names(advice, names) == (
        "Boost [a name] and '[a name]'; use the key of the dictionary, not [a name]."
    )
    assert without_names("Bob Boats is another", names) == "Bob Boats is another"
