"""Templates: their notation, the schema they must fit, and those that a schema gives."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbnav.errors import UsageError
from kbnav.evaluation.synthesis.templates import (
    Branch,
    Leg,
    Template,
    check_template,
    derive_templates,
    parse_template,
)
from kbnav.knowledge.skb.schema import Meta, NodeType, Relation, TypeTuple

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
