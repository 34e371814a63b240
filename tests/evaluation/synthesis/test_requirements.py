"""Templates of three branches and negated ones against walks over the edge list in plain Python."""

import random

import pytest

from kbnav.evaluation.synthesis.sampling import SplitSizes, synthesize
from kbnav.evaluation.synthesis.templates import candidates, draw, parse_template
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.store import SKB
from tests.evaluation.synthesis.parts import Edge, EdgeList
from tests.knowledge.skb.sources import small_skb

TEMPLATES = [
    "drug -treats-> ill & gene -marks-> ill & sign <-shows- ill",
    "drug -treats-> ill <-treats- drug -treats-> ill & same -harms-> ill & gene -marks-> ill",
    "gene -marks-> ill & drug -!treats-> ill",
    "sign <-shows- ill & gene -marks-> ill & drug -!harms-> ill",
    "drug -treats-> ill & sign <-!shows- ill",
]


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> tuple[SKB, set[Edge]]:
    """40 illnesses, 12 drugs, 10 genes, 8 signs, and edges by chance."""
    chance = random.Random(4)
    kinds = {"ill": 40, "drug": 12, "gene": 10, "sign": 8}
    nodes = [
        {"id": f"{kind}{n}", "type": kind, "name": f"{kind} {n}"} for kind, many in kinds.items() for n in range(many)
    ]
    edges = {
        (f"{source}{chance.randrange(kinds[source])}", relation, f"{target}{chance.randrange(kinds[target])}")
        for source, relation, target, many in (
            ("drug", "treats", "ill", 60),
            ("drug", "harms", "ill", 60),
            ("gene", "marks", "ill", 120),
            ("ill", "shows", "sign", 90),
        )
        for _ in range(many)
    }
    return small_skb(tmp_path_factory.mktemp("clinic"), nodes, sorted(edges)), edges


def met(text: str, starts: list[str], edges: set[Edge]) -> set[str]:
    """The illnesses that a template leads to from start nodes, by plain sets."""
    graph = EdgeList(edges)
    every = {f"ill{n}" for n in range(40)}
    for branch in parse_template(text).branches:
        way = [(leg.relation, leg.direction) for leg in branch.legs]
        if branch.negated:
            kinds = {one for edge in edges for one in (edge[0], edge[2]) if one.rstrip("0123456789") == branch.start}
            every -= {end for one in kinds for end in graph.reached(one, way)}
        else:
            every &= graph.reached(starts[branch.slot], way)
    return every - set(starts)


@pytest.mark.parametrize("text", TEMPLATES)
def test_all_branches_are_met_and_no_negated_one(clinic, text):
    skb, edges = clinic
    template, chance, found = parse_template(text), random.Random(7), 0
    for gold in range(*skb.type_range("ill")):
        requirement = draw(skb, template, gold, chance)
        if requirement is None:
            continue
        found += 1
        starts = [skb.id(node) for node in requirement.starts]
        answers = {skb.id(node) for node in requirement.candidates.tolist()}
        assert answers == met(text, starts, edges)
        assert skb.id(gold) in answers
        assert [len(walk) > 0 for walk in requirement.walks] == [not branch.negated for branch in template.branches]
        assert requirement.alone == tuple(map(len, candidates(skb, template, requirement.starts)))
    assert found > 2


def test_a_question_says_all_three_and_what_is_not(clinic):
    skb, edges = clinic
    wording = Wording.model_validate(
        {
            "openings": ["Find {0} {1}."],
            "without_text": True,
            "relations": {
                "shows": {"into": ["that show {0}"]},
                "marks": {"out": ["that {0} mark[s]"]},
                "harms": {"out": ["that {0} harm[s]"]},
            },
            "templates": [TEMPLATES[3]],
        }
    )
    (question,), _ = synthesize(skb, SplitSizes(1, seed=2), wording)
    sign, gene = (path.start_name for path in question.paths)
    assert question.question == f"Find ills that show {sign} and that {gene} marks and that no drugs harm."
    assert question.without == (("drug", "harms", "out"),)
    assert set(question.answers) == met(TEMPLATES[3], [path.start for path in question.paths], edges)
    assert question.shape == "1&1&!1"
