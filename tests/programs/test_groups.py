"""Groups of queries: proposed and assigned by a model, or found by common words; small ones merged; routing."""

import pytest

from kbnav.programs.first_stage import SIZE, TrainingQuery, open_parts, oracle_recall
from kbnav.programs.groups import Centroids, Group, groups_by_model, merged
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings

KINDS = ("Which drug treats {} well?", "Name a gene that is a part of {} somewhere", "Who wrote {} and when did they?")


def made(count: int, split: str) -> list[TrainingQuery]:
    return [TrainingQuery(f"{split}{n}", KINDS[n % 3].format(f"thing{n} x{n * 7}"), ("a",)) for n in range(count)]


class Model:
    """Replies to prompts by their purpose; counts them."""

    def __init__(self, none_of: str = "") -> None:
        self.asked: list[str] = []
        self._none_of, self._patterns = none_of, 0

    def __call__(self, prompt: str, trace: Trace, purpose: str) -> str:
        self.asked.append(purpose)
        if purpose == "patterns":
            self._patterns += 1
            return "Here they are:\n1. drugs\n2) genes\n" if self._patterns == 1 else "1. authors"
        asked = prompt.partition("# Queries")[2].splitlines()
        numbered = [line.partition(". ") for line in asked if line[:1].isdigit()]
        words = {"drug": 1, "gene": 2} if "drugs" in prompt else {"wrote": 1}
        found = [(number, next((to for word, to in words.items() if word in text), 0)) for number, _, text in numbered]
        return "\n".join(f"{number}: {to}" for number, to in found)


def test_a_model_proposes_patterns_assigns_in_batches_and_is_asked_once_more_for_those_left_over():
    model, training, validation = Model(), made(120, "t"), made(90, "v")
    found = groups_by_model(training, validation, model, Trace(), most=6, smallest=20)
    assert [group.pattern for group in found] == ["drugs", "genes", "authors"]
    assert [len(group.training) for group in found] == [40, 40, 40]
    assert [len(group.validation) for group in found] == [30, 30, 30]
    assert model.asked == ["patterns", *["assign"] * 6, "patterns", *["assign"] * 2]


def test_where_the_number_of_patterns_is_used_up_leftovers_are_a_group_of_their_own():
    found = groups_by_model(made(120, "t"), made(90, "v"), Model(), Trace(), most=2, smallest=20)
    assert [group.pattern for group in found] == ["drugs", "genes", "queries of no other pattern"]
    assert sum(len(group.training) for group in found) == 120


def test_common_words_route_new_queries_to_their_group():
    texts = [one.text for one in made(120, "t")]
    centroids = Centroids.of([texts[n::3] for n in range(3)])
    assert centroids.nearest(["Which drug treats gout well?", "Who wrote it?"]) == [0, 2]


def test_a_group_too_small_to_validate_joins_the_nearest_and_no_query_is_lost():
    training = [TrainingQuery("a1", "red fish swim", ("x",)), TrainingQuery("b1", "blue birds fly", ("x",))]
    training += [TrainingQuery("c1", "red fish jump", ("x",))]
    held = [TrainingQuery(f"a{n}", "red fish swim", ("x",)) for n in range(2, 5)]
    held += [TrainingQuery(f"b{n}", "blue birds fly", ("x",)) for n in range(2, 5)]
    held += [TrainingQuery("c2", "red fish jump", ("x",))]
    groups = [
        Group("g1", "swim", ("a1",), ("a2", "a3", "a4")),
        Group("g2", "fly", ("b1",), ("b2", "b3", "b4")),
        Group("g3", "jump", ("c1",), ("c2",)),
    ]
    found = merged(groups, training, held, smallest=3)
    assert sorted(group.pattern for group in found) == ["fly", "swim; or jump"]
    assert [group.id for group in found] == ["g1", "g2"]
    assert sorted(name for group in found for name in group.validation) == sorted(one.id for one in held)
    assert len(merged(groups, training, held, smallest=100)) == 1


def test_a_group_joins_none_whose_answers_are_of_another_type_unless_nothing_can_be_held_out_for_it():
    def asked(name: str, text: str, *kinds: str) -> TrainingQuery:
        return TrainingQuery(name, text, kinds)

    training = [asked("a1", "red fish swim", "fish"), asked("b1", "red birds fly", "bird")]
    training.append(asked("c1", "red fish jump", "bird", "bird", "fish"))  # whose words are those of fish
    held = [asked(f"{name}{n}", "red", kind) for name, kind in (("a", "fish"), ("b", "bird")) for n in range(2, 5)]
    alone = asked("c2", "red fish jump", "bird")
    groups = [
        Group("g1", "swim", ("a1",), ("a2", "a3", "a4")),
        Group("g2", "fly", ("b1",), ("b2", "b3", "b4")),
        Group("g3", "jump", ("c1",), ("c2",)),
    ]
    found = merged(groups, training, [*held, alone], smallest=3, kinds=str)
    assert sorted(group.pattern for group in found) == ["fly; or jump", "swim"]
    found = merged([groups[0], groups[2]], training, [*held, alone], smallest=3, kinds=str)
    assert sorted(group.pattern for group in found) == ["jump", "swim"]
    bare = Group("g3", "jump", ("c1",), ())
    assert [group.pattern for group in merged([groups[0], bare], training, held, smallest=3, kinds=str)] == [
        "swim; or jump"
    ]


def test_candidates_are_the_first_200_of_graph_rank(demo_kb, demo_home):
    query = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"
    settings = Settings(kb="demo", home=demo_home)
    found = open_parts(demo_kb, settings).first(query, None)
    assert found == build_retriever("graph-rank", demo_kb, settings, {}).retrieve(query, SIZE).ids
    assert 50 < len(found) <= SIZE == 200
    assert found[0] == "instrument:the-brown-eye"


def test_oracle_recall_is_what_no_program_can_pass():
    found = oracle_recall([(["a", "b"], ["a", "c"]), (["a"], ["d"]), (["x"], ["x"])])
    assert found == pytest.approx(0.5)
    assert oracle_recall([]) == 0
