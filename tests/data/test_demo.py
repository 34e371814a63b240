"""The bundled demo SKB and mini mirror: valid and consistent, and their questions have their answers.

What is asked of the demo needs its text and its relations together; answers are worked out here from its two files."""

import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

import kbnav
from kbnav.errors import UsageError
from kbnav.knowledge.open import bundled_skb
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.journal import work_folder
from tests.data import DEMO_QUESTIONS, EDGES, MINI_QUESTIONS, NODES
from tests.knowledge.skb.sources import edges_of

BY_ID = pytest.mark.parametrize("row", DEMO_QUESTIONS, ids=[row["id"] for row in DEMO_QUESTIONS])


def _steps() -> dict[tuple[str, str], set[str]]:
    steps: dict[tuple[str, str], set[str]] = defaultdict(set)
    for source, relation, target in EDGES:
        steps[source, relation].add(target)
        steps[target, f"^{relation}"].add(source)
    return dict(steps)


STEPS = _steps()


def ends(node: str, path: Sequence[str]) -> set[str]:
    """Where a path of relations leads from a node; ``^`` goes backwards."""
    reached = {node}
    for relation in path:
        reached = {end for start in reached for end in STEPS.get((start, relation), ())}
    return reached


def by_relations(row: dict[str, Any]) -> set[str]:
    """Nodes of the answer's type that meet what the question says about relations."""
    same = row.get("same")
    return {
        node
        for node in of_type(row["type"])
        if all(rule["to"] in ends(node, rule["path"]) for rule in row.get("relations", ()))
        and (same is None or ends(node, same[0]) & ends(node, same[1]))
    }


def of_type(kind: str) -> list[str]:
    return [node for node, record in NODES.items() if record["type"] == kind]


@BY_ID
def test_an_answer_is_what_relations_and_text_have_in_common(row):
    related = by_relations(row)
    told = {node for node in of_type(row["type"]) if re.search(row["text"]["pattern"], NODES[node]["description"])}
    assert told == set(row["text"]["fits"])
    assert sorted(related & told) == row["answer"] != []
    assert len(related) > len(row["answer"]) < len(told), "one of the two alone gives the answer"


def test_it_is_built_once_and_holds_the_files(demo_home):
    path = bundled_skb(demo_home)
    built = (path / "meta.json").stat()
    assert bundled_skb(demo_home) == path
    assert (path / "meta.json").stat().st_mtime_ns == built.st_mtime_ns
    with SKB.open(path) as skb:
        assert (skb.meta.name, skb.meta.dropped) == ("demo", {})
        assert edges_of(skb) == set(EDGES)


def test_a_new_folder_that_another_build_took_for_one_left_behind_is_made_again(tmp_path, monkeypatch):
    made, make = list[str](), tempfile.mkdtemp

    def taken(**options) -> str:
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", taken)
    with work_folder(tmp_path, "demo") as work:
        assert (str(work), len(made)) == (made[1], 2)
    assert list(tmp_path.iterdir()) == []


def test_two_that_need_it_at_once_get_the_same_and_leave_nothing_behind(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(bundled_skb, [tmp_path, tmp_path])
    assert first == second
    assert list(first.parent.iterdir()) == [first]
    with SKB.open(first) as skb:
        assert (skb.meta.nodes, skb.meta.edges) == (len(NODES), len(EDGES))


def test_a_home_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=re.escape(f"cannot build the bundled demo in {tmp_path / 'file'}")):
        bundled_skb(tmp_path / "file")


MINI = Path(kbnav.__file__).parent / "data" / "mini.ttl"
PREFIXES = "\n".join(
    f"PREFIX {line}" for line in re.findall(r"^@prefix (.+?) \.$", MINI.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture(scope="module")
def store() -> ox.Store:
    store = ox.Store()
    store.load(path=str(MINI), format=ox.RdfFormat.TURTLE)
    return store


def rows(store: ox.Store, query: str) -> list[tuple[str | None, ...]]:
    solutions = store.query(f"{PREFIXES}\n{query}")
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


@pytest.mark.parametrize("row", MINI_QUESTIONS, ids=[row["id"] for row in MINI_QUESTIONS])
def test_gold_query_gives_the_answer(store, row):
    if row["kind"] == "boolean":
        assert bool(store.query(f"{PREFIXES}\n{row['sparql']}")) is row["answer"]
    else:
        assert sorted(str(found[0]) for found in rows(store, str(row["sparql"]))) == row["answer"]
