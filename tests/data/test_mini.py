"""The bundled mini mirror: valid and consistent in itself."""

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


@pytest.mark.parametrize("row", QUESTIONS, ids=[row["id"] for row in QUESTIONS])
def test_gold_query_gives_the_answer(store, row):
    if row["kind"] == "boolean":
        assert bool(store.query(f"{HEADER}\n{row['sparql']}")) is row["answer"]
    else:
        assert sorted(str(found[0]) for found in rows(store, str(row["sparql"]))) == row["answer"]
