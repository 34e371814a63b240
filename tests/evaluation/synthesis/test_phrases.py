"""Phrases of a text, their rewording, and the wording of questions."""

import random
from collections import Counter

import pytest

from kbnav.errors import DataError, UsageError
from kbnav.evaluation.synthesis.templates import check_template, parse_template
from kbnav.evaluation.synthesis.text import (
    Phrase,
    Thesaurus,
    phrases,
    reword,
)
from kbnav.evaluation.synthesis.wording import SHIPPED, Wording, load_wording
from kbnav.knowledge.skb.schema import Meta, TypeTuple


def texts(text: str, empty: tuple[str, ...] = ()) -> set[str]:
    return {phrase.text for phrase in phrases(text, empty)}


def test_clauses_nest_and_agree():
    wording = Wording.model_validate(
        {
            "openings": ["Find {0} {1}."],
            "frames": ["that mention {0}"],
            "types": {"gene": {"plural": ["genes"]}, "drug": {"plural": ["drugs"]}},
            "relations": {
                "binds": {"out": ["that {0} bind[s]"], "into": ["that bind {0}"]},
                "resembles": {"out": ["that [is|are] like {0}"], "symmetric": True},
            },
        }
    )

    def asked(template: str, *names: str) -> str:
        return wording.question(parse_template(template), names, "", random.Random(0))[0]

    assert asked("drug -binds-> gene", "aspirin") == "Find genes that aspirin binds."
    assert asked("drug -resembles- drug -binds-> gene", "aspirin") == "Find genes that drugs that is like aspirin bind."
    question, clauses = wording.question(
        parse_template("gene <-binds- drug & drug -resembles- drug"), ["TP53", "aspirin"], "pain", random.Random(1)
    )
    assert clauses == ["that bind TP53", "that is like aspirin"]
    assert question in {
        "Find drugs that mention pain and that bind TP53 and that is like aspirin.",
        "Find drugs that bind TP53 and that is like aspirin and that mention pain.",
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_wordings_are_read_and_their_templates_too(name):
    wording = load_wording(name)
    for template in map(parse_template, wording.templates):
        legs = [leg for branch in template.branches for leg in branch.legs]
        assert {leg.relation for leg in legs} <= wording.relations.keys()
        assert {leg.type for leg in legs} <= wording.types.keys()


def test_starks_templates_are_all_there_and_fit_its_schemas():
    """Appendix B: so many templates of each shape; schemas as STaRK's files have them."""
    shapes = {
        "amazon": {"1": 5, "1&1": 7, "1&1&1": 1},
        "mag": {"1": 3, "2": 2, "2=2": 1, "2&1": 1},
        "prime": {"1&!1": 1, "1&1": 4, "2": 19, "2=1": 4},
    }
    for name, expected in shapes.items():
        templates = [parse_template(text) for text in load_wording(f"stark-{name}").templates]
        assert Counter(template.shape for template in templates) == expected
        legs = [leg for template in templates for branch in template.branches for leg in branch.legs]
        assert all(leg.direction == "both" for leg in legs if leg.relation.startswith("also_"))
        for template in templates if name in STARK_SCHEMAS else ():
            check_template(template, STARK_SCHEMAS[name])


PRIME = """
effect/phenotype [phenotype absent] disease & drug [!indication] disease
drug [contraindication] disease & gene/protein [associated with] disease
anatomy [expression present] gene/protein & anatomy [expression absent] gene/protein
anatomy [expression absent] gene/protein & anatomy [expression absent] gene/protein
drug [carrier] gene/protein & drug [carrier] gene/protein
anatomy [expression present] gene/protein [target] drug
drug [side effect] effect/phenotype [side effect] drug
drug [carrier] gene/protein [carrier] drug
anatomy [expression present] gene/protein [enzyme] drug
cellular_component [interacts with] gene/protein [carrier] drug
molecular_function [interacts with] gene/protein [target] drug
effect/phenotype [side effect] drug [synergistic interaction] drug
disease [indication] drug [contraindication] disease
disease [parent-child] disease [phenotype present] effect/phenotype
gene/protein [transporter] drug [side effect] effect/phenotype
drug [transporter] gene/protein [interacts with] exposure
pathway [interacts with] gene/protein [ppi] gene/protein
drug [synergistic interaction] drug [transporter] gene/protein
biological_process [interacts with] gene/protein [interacts with] biological_process
effect/phenotype [associated with] gene/protein [interacts with] biological_process
drug [transporter] gene/protein [expression present] anatomy
drug [target] gene/protein [interacts with] cellular_component
biological_process [interacts with] gene/protein [expression absent] anatomy
effect/phenotype [associated with] gene/protein [expression absent] anatomy
drug [indication] disease [indication] drug & drug [synergistic interaction] drug
pathway [interacts with] gene/protein [interacts with] pathway & pathway [parent-child] pathway
gene/protein [associated with] disease [associated with] gene/protein & gene/protein [ppi] gene/protein
gene/protein [associated with] effect/phenotype [associated with] gene/protein & gene/protein [ppi] gene/protein
"""


def test_primes_templates_are_the_papers_metapaths():
    """Appendix B.3, each metapath as it stands there; the last four lead twice from one node."""

    def metapath(text: str) -> str:
        template = parse_template(text)
        return " & ".join(
            " ".join([one.start, *(f"[{'!' * leg.negated}{leg.relation}] {leg.type}" for leg in one.legs)])
            for one in template.branches
        )

    templates = load_wording("stark-prime").templates
    assert [metapath(text) for text in templates] == PRIME.strip().splitlines()
    assert ["same" in text for text in templates] == [False] * 24 + [True] * 4


def _schema(*tuples: tuple[str, str, str]) -> Meta:
    found = [TypeTuple(source=a, relation=r, target=b, count=1) for a, r, b in tuples]
    return Meta(name="x", source="", data="data-000000000000", types=(), relations=(), tuples=tuple(found), files={})


STARK_SCHEMAS = {
    "amazon": _schema(
        *((("product", f"has_{kind}", kind)) for kind in ("brand", "color", "category")),
        *(("product", relation, "product") for relation in ("also_buy", "also_view")),
    ),
    "mag": _schema(
        ("author", "author___affiliated_with___institution", "institution"),
        ("paper", "paper___cites___paper", "paper"),
        ("paper", "paper___has_topic___field_of_study", "field_of_study"),
        ("author", "author___writes___paper", "paper"),
    ),
}


def test_a_wording_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="hetionet"):
        load_wording("hetionett")
    (tmp_path / "own.toml").write_text("quotes = true\n")
    with pytest.raises(DataError, match="quotes"):
        load_wording(str(tmp_path / "own.toml"))


def thesaurus(*groups: str) -> Thesaurus:
    return Thesaurus(groups, lambda text: [text.removesuffix("s").removesuffix("ing")])


@pytest.mark.parametrize(
    ("phrase", "expected", "how"),
    [
        (Phrase(("narrow", "vessel"), False), "narrow container", "synonyms"),
        (Phrase(("narrow", "neck"), False), "narrow necks", "forms"),
        (Phrase(("tone", "and", "manner"), False), "manner and tone", "forms"),
        (Phrase(("works", "of", "art"), False), "art works", "forms"),
        (Phrase(("committing", "a", "crime"), False), "committing crimes", "forms"),
        (Phrase(("paints", "pots"), True), "painting pot", "forms"),
        (Phrase(("family", "Felidae"), False), "family Felidae", "forms"),
    ],
)
def test_rewording(phrase: Phrase, expected: str, how: str):
    found = reword(phrase, thesaurus("vessel container"), random.Random(0))
    assert (found.text, found.how) == (expected, how)
