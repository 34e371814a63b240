"""Templates: their notation, the schema they must fit, and those that a schema gives."""

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.sampling import SplitSizes, synthesize
from kbnav.evaluation.synthesis.templates import (
    Branch,
    Leg,
    Template,
    candidates,
    check_template,
    derive_templates,
    draw,
    parse_template,
)
from kbnav.evaluation.synthesis.wording import Wording
from kbnav.knowledge.skb.schema import Meta, NodeType, Relation, TypeTuple
from kbnav.knowledge.skb.store import SKB
from tests.evaluation.synthesis.parts import Edge, EdgeList
from tests.knowledge.skb.sources import small_skb

WORD = st.text(string.ascii_letters + "_", min_size=1, max_size=6)
NAME = st.lists(WORD, min_size=1, max_size=3).map(" ".join).filter(lambda name: name != "same")


@st.composite
def templates(draw: st.DrawFn) -> Template:
    answer = draw(NAME)

    def branch(slot: int, start: str) -> Branch:
        legs = draw(
            st.lists(st.builds(Leg, NAME, st.sampled_from(["out", "in", "both"]), NAME), min_size=1, max_size=3)
        )
        return Branch(start, (*legs[:-1], Leg(legs[-1].relation, legs[-1].direction, answer)), slot)

    branches, slots = [branch(0, draw(NAME))], 1
    for other in draw(st.lists(st.sampled_from(["same", "another", "without"]), max_size=3)):
        if other == "same":
            branches.append(branch(0, branches[0].start))
        elif other == "another":
            branches.append(branch(slots, draw(NAME)))
            slots += 1
        else:
            direction = draw(st.sampled_from(["out", "in", "both"]))
            branches.append(Branch(draw(NAME), (Leg(draw(NAME), direction, answer, negated=True),), -1))
    return Template(tuple(branches))


@given(templates())
def test_what_is_written_is_read_back(template):
    assert parse_template(str(template)) == template


def test_notation():
    found = parse_template("Disease -DuG-> Gene & Compound -CbG-> Gene <-CbG- Compound -CbG-> Gene")
    assert found.answer == "Gene"
    assert [branch.start for branch in found.branches] == ["Disease", "Compound"]
    assert [(leg.relation, leg.direction, leg.type) for leg in found.branches[1].legs] == [
        ("CbG", "out", "Gene"),
        ("CbG", "in", "Compound"),
        ("CbG", "out", "Gene"),
    ]
    assert found.shape == "1&3"
    assert parse_template("Gene -Gr>G-> Gene").branches[0].legs == (Leg("Gr>G", "out", "Gene"),)
    same = parse_template("Gene <-DaG- Disease -DaG-> Gene & same -GiG- Gene")
    assert (same.slots, same.shape, same.branches[1].start) == (1, "2=1", "Gene")
    # The first of STaRK's templates for Prime (appendix B.3), and a third and a fourth branch.
    none = parse_template("effect <-phenotype absent- disease & drug -!indication-> disease")
    assert none.branches[1].legs == (Leg("indication", "out", "disease", negated=True),)
    assert (none.slots, none.shape, none.branches[1].negated) == (1, "1&!1", True)
    four = parse_template("a -r-> d & same -s-> d & b -t-> c -u-> d & e -v-> d")
    assert (four.slots, four.shape, [branch.slot for branch in four.branches]) == (3, "1=1&2&1", [0, 0, 1, 2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Gene",
        "Gene -GiG->",
        "same -GiG-> Gene",
        "Gene <-GiG-> Gene",
        "Drug -!CbG-> Gene",
        "Disease -DuG-> Gene & Gene <-DuG- Disease",
        "Gene -GiG-> Gene & same -!GiG-> Gene",
        "Gene -GiG-> Gene & Drug -!CbG-> Gene -GiG-> Gene",
    ],
)
def test_what_is_no_template_is_refused(text):
    with pytest.raises(UsageError):
        parse_template(text)


def schema(*tuples: tuple[str, str, str]) -> Meta:
    kinds = dict.fromkeys(kind for source, _, target in tuples for kind in (source, target))
    return Meta(
        name="small",
        source="by hand",
        data="data-000000000000",
        types=tuple(NodeType(name=kind, count=1) for kind in kinds),
        relations=tuple(Relation(name=name, count=1) for name in dict.fromkeys(name for _, name, _ in tuples)),
        tuples=tuple(TypeTuple(source=a, relation=r, target=b, count=1) for a, r, b in tuples),
        files={},
    )


def test_all_templates_of_a_small_schema():
    meta = schema(("person", "owns", "house"), ("house", "near", "house"))
    assert sorted(map(str, derive_templates(meta, symmetric=["near"]))) == sorted(
        [
            "person -owns-> house",
            "house <-owns- person",
            "house -near- house",
            "person -owns-> house <-owns- person",
            "person -owns-> house -near- house",
            "house <-owns- person -owns-> house",
            "house -near- house <-owns- person",
            "house -near- house -near- house",
            "person -owns-> house & person -owns-> house",
            "person -owns-> house & house -near- house",
            "house -near- house & house -near- house",
            "house <-owns- person & house <-owns- person",
        ]
    )
    assert len(derive_templates(meta, relations=["owns"])) == 6


def test_a_template_must_fit_the_schema():
    meta = schema(("person", "owns", "house"))
    check_template(parse_template("person -owns-> house <-owns- person"), meta)
    with pytest.raises(UsageError, match="no edge for house -owns-> person"):
        check_template(parse_template("person -owns-> house -owns-> person"), meta)


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
