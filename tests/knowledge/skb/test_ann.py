from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kbnav.encoders import Vectors, normalised
from kbnav.errors import DamagedKB, DataError
from kbnav.knowledge.skb import vectors
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.maintenance import check, update
from kbnav.knowledge.skb.schema import NodeText, read_meta
from kbnav.knowledge.skb.store import SKB


class Rows:
    """An encoder of texts that begin with the number of a row."""

    name = "rows"

    def __init__(self, rows: Vectors) -> None:
        self._rows = rows

    def encode(self, texts: Sequence[str]) -> Vectors:
        return self._rows[[int(text.split()[0]) for text in texts]]


def clustered(count: int, width: int) -> Vectors:
    """Directions in groups, groups in larger ones, some numbers wider spread than others: as real texts lie."""
    random = np.random.default_rng(0)
    spread = np.arange(1, width + 1) ** -0.5
    topics = random.standard_normal((8, width))[random.integers(8, size=count // 100)]
    topics += 0.9 * random.standard_normal(topics.shape)
    rows = topics[random.integers(len(topics), size=count)] + 0.8 * random.standard_normal((count, width))
    return normalised(rows * spread)


def built(folder: Path, rows: Vectors, names: Sequence[str] | None = None) -> vectors.VectorIndex:
    """Vectors and approximate index of nodes whose names are the numbers of their rows."""
    nodes = [NodeText(n, 0, name, (), "") for n, name in enumerate(names or map(str, range(len(rows))))]
    (folder / "exact").mkdir(parents=True)
    (folder / "ann").mkdir()
    vectors.build(lambda: nodes, folder / "exact", type_start=[0, len(nodes)], encoder=Rows(rows))
    vectors.build_approximate(folder / "exact", folder / "ann")
    return opened(folder)


def opened(folder: Path) -> vectors.VectorIndex:
    return vectors.open(folder / "exact", approximate=folder / "ann")


@pytest.fixture(scope="module")
def rows() -> Vectors:
    return clustered(6_200, 64)


@pytest.fixture(scope="module")
def index(rows: Vectors, tmp_path_factory: pytest.TempPathFactory) -> vectors.VectorIndex:
    return built(tmp_path_factory.mktemp("ann"), rows[:6_000])


@pytest.mark.parametrize("limit", [20, 200])
def test_nearly_all_of_the_best_are_found_with_exact_scores(
    rows: Vectors, index: vectors.VectorIndex, limit: int
) -> None:
    found = 0
    for query in rows[6_000:]:
        scores = rows[:6_000] @ query
        best = set(np.argsort(-scores, kind="stable")[:limit].tolist())
        hits = index.nearest(query, limit=limit)
        assert [score for _, score in hits] == pytest.approx([float(scores[n]) for n, _ in hits], abs=1e-6)
        assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
        found += len(best & {n for n, _ in hits})
    assert found / (200 * limit) >= 0.99


def test_it_is_the_approximate_index_that_answers_unless_told_otherwise(tmp_path: Path, rows: Vectors) -> None:
    """Seen by an index whose graph knows only the first half of the nodes."""
    built(tmp_path, rows[:1_000])
    built(tmp_path / "half", rows[:500])
    for file in (tmp_path / "half" / "ann").iterdir():
        if file.name != "ann.json":
            file.rename(tmp_path / "ann" / file.name)
    meta = json.loads((tmp_path / "ann" / "ann.json").read_text())
    (tmp_path / "ann" / "ann.json").write_text(json.dumps(meta | {"nodes": 500, "distinct": 500}))
    index = opened(tmp_path)
    query = rows[800]

    assert index.nearest(query, limit=1)[0][0] < 500
    assert index.nearest(query, limit=1, exact=True)[0][0] == 800
    assert index.nearest(query, limit=1, ranges=[(0, 1_000)])[0][0] == 800
    assert index.nearest(query, limit=1, among=[3, 800])[0][0] == 800
    assert len(index.nearest(query, limit=vectors.MOST_APPROXIMATE + 1)) == 1_000  # so many are read exactly


def test_a_thousand_nodes_of_one_text_hide_nobody(tmp_path: Path, rows: Vectors) -> None:
    names = ["7"] * 1_500 + [str(n) for n in range(1_500)] + ["7"] * 100
    index = built(tmp_path, rows[:1_500], names)

    same = index.nearest(rows[7], limit=20)
    assert [n for n, _ in same] == list(range(20))
    near = index.nearest(rows[8], limit=3)
    assert near == index.nearest(rows[8], limit=3, exact=True)
    assert near[0] == (1_508, pytest.approx(1))
    assert [n for n, _ in index.nearest(rows[7], limit=1_000)] == list(range(1_000))


def test_an_index_of_other_vectors_is_refused(tmp_path: Path, rows: Vectors) -> None:
    built(tmp_path / "old", rows[:50])
    built(tmp_path / "new", rows[:50], [f"{n} changed" for n in range(50)])
    index = vectors.open(tmp_path / "new" / "exact", approximate=tmp_path / "old" / "ann")

    with pytest.raises(DataError, match="other vectors"):
        index.nearest(rows[0])
    assert index.nearest(rows[0], exact=True)[0][0] == 0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("ann.json", lambda whole: whole.replace(b'"format": 1', b'"format": 2'), "format 2"),
        ("ann.json", lambda whole: whole[:-1], "not an approximate index"),
        ("ann.json", lambda whole: whole.replace(b'"nodes": 50', b'"nodes": 51'), "not an approximate index"),
        ("graph.faiss", lambda whole: whole[: len(whole) // 2], "not an approximate index"),
        ("graph.faiss", lambda whole: b"", "not an approximate index"),
        ("nodes.npy", lambda whole: whole[:-1], "nodes.npy"),
    ],
)
def test_what_is_no_index_is_refused(tmp_path: Path, rows: Vectors, name: str, change, message: str) -> None:
    built(tmp_path, rows[:50])
    path = tmp_path / "ann" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=message):
        opened(tmp_path).nearest(rows[0])


def write_records(path: Path, count: int) -> TableSource:
    path.write_text("".join(f'{{"id": "n{n}", "name": "{n}", "type": "thing"}}\n' for n in range(count)))
    return TableSource([path], [])


def test_an_skb_has_it_checked_kept_and_dropped(tmp_path: Path, rows: Vectors) -> None:
    out = tmp_path / "my.skb"
    options = Options(text=False, sparql=False, encoder=Rows(rows), ann=True)
    build(write_records(tmp_path / "nodes.jsonl", 300), out, options)
    with SKB.open(out, Rows(rows)) as skb:
        assert skb.vectors is not None
        assert [n for n, _ in skb.vectors.search("17", limit=1)] == [17]
        graph = out / skb.meta.data / "vectors-ann" / "graph.faiss"
    assert check(out) == []
    whole = graph.read_bytes()
    graph.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "vectors-ann/graph.faiss" in check(out)[0]
    for at in (4, 8, 33, len(whole) // 2):  # a number of dimensions or vectors that faiss would believe
        graph.write_bytes(whole[:at] + b"\x7e" * 8 + whole[at + 8 :])
        with SKB.open(out, Rows(rows)) as skb:
            assert skb.vectors is not None
            with pytest.raises(DamagedKB, match="not what was written"):
                skb.vectors.search("17", limit=1)
    graph.write_bytes(whole)

    update(out, write_records(tmp_path / "more.jsonl", 310), options)
    with SKB.open(out, Rows(rows)) as skb:
        assert skb.vectors is not None
        assert [n for n, _ in skb.vectors.search("305", limit=1)] == [305]

    update(out, TableSource([], []), options._replace(ann=False))
    assert not [name for name in read_meta(out).files if "ann" in name]


WITHOUT_FAISS = """
import sys
sys.modules["faiss"] = None  # as where it is not installed
from pathlib import Path
import numpy as np
from kbnav.errors import UsageError
from kbnav.knowledge.skb import vectors
folder = Path(sys.argv[1])
index = vectors.open(folder / "exact", approximate=folder / "ann")
print([index.nearest(np.asarray(index.vectors[n]), limit=1)[0][0] for n in (3, 4)])
try:
    vectors.build_approximate(folder / "exact", folder)
except UsageError as error:
    print(error)
"""


def test_without_faiss_the_search_is_exact_and_says_so_once(tmp_path: Path, rows: Vectors) -> None:
    built(tmp_path, rows[:50])
    command = [sys.executable, "-c", WITHOUT_FAISS, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert done.stdout.splitlines() == [
        "[3, 4]",
        "the approximate index needs faiss, which is not installed: pip install 'kbnav[ann]'",
    ]
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'kbnav[ann]'" in done.stderr
