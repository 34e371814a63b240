"""The bundled mini mirror: valid and consistent in itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyoxigraph as ox
import pytest

import kbnav

MINI = Path(kbnav.__file__).parent / "data" / "mini.ttl"
QUESTIONS = json.loads((Path(__file__).parent / "mini_questions.json").read_text(encoding="utf-8"))
HEADER = "\n".join(
    f"PREFIX {line}" for line in re.findall(r"^@prefix (.+?) \.$", MINI.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.load(path=str(MINI), format=ox.RdfFormat.TURTLE)
    return store


def rows(store: ox.Store, query: str) -> list[tuple[str | None, ...]]:
    solutions = store.query(f"{HEADER}\n{query}")
    if not isinstance(solutions, ox.QuerySolutions):
        raise TypeError("not a SELECT query")
    return [tuple(None if term is None else short(term) for term in row) for row in solutions]


def short(term: object) -> str:
    """Ids without their namespace, literals by their text."""
    if isinstance(term, ox.NamedNode):
        return re.sub(r"^http://www\.wikidata\.org/(entity|prop(/direct|/statement|/qualifier)?)/", "", term.value)
    if isinstance(term, ox.Literal):
        return term.value
    return "unknown"


def test_the_corners_that_tests_need_are_there(store: ox.Store):
    def ask(pattern: str) -> bool:
        return bool(store.query(f"{HEADER}\nASK {{ {pattern} }}"))

    assert ask("wd:Q937 p:P166 [ ps:P166 wd:Q156478 ; wikibase:rank wikibase:DeprecatedRank ; pq:P2241 wd:Q1263068 ]")
    assert not ask("wd:Q937 wdt:P166 wd:Q156478")
    assert ask("wd:Q159 p:P36 [ ps:P36 wd:Q649 ; wikibase:rank wikibase:PreferredRank ]")
    assert ask("wd:Q159 p:P36 [ ps:P36 wd:Q656 ; wikibase:rank wikibase:NormalRank ]")
    assert not ask("wd:Q159 wdt:P36 wd:Q656")
    assert ask("wd:Q677 wdt:P61 ?someone FILTER(ISBLANK(?someone))")
    assert ask("wd:Q131733 a wdno:P26 ; p:P26 [ a wdno:P26 ]")
    assert ask("wd:Q13165295 owl:sameAs wd:Q1 . wd:Q1 a wikibase:Item")
    assert ask('wd:Q150989 rdfs:label ?name FILTER(LANG(?name) = "mul")')
    assert not ask('wd:Q150989 rdfs:label ?name FILTER(LANG(?name) = "en")')


@pytest.mark.parametrize("row", QUESTIONS, ids=[row["id"] for row in QUESTIONS])
def test_gold_query_gives_the_answer(store: ox.Store, row: dict[str, object]):
    if row["kind"] == "boolean":
        assert bool(store.query(f"{HEADER}\n{row['sparql']}")) is row["answer"]
    else:
        assert sorted(str(found[0]) for found in rows(store, str(row["sparql"]))) == row["answer"]
