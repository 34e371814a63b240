"""STaRK's knowledge bases: as it saves them, and its MAG from the sources; pickles and tensors read without PyTorch.

It saves ``node_info.pkl``, ``edge_index.pt``, ``edge_types.pt``, ``node_types.pt`` and, for two of the three,
``node_type_dict.pkl`` and ``edge_type_dict.pkl``. STaRK numbers nodes and names answers by those numbers, so they are
the ids here. Edges are read as they are stored, before STaRK's loader makes them undirected.
"""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import re
import resource
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from kbnav.answers.language import question_language
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import Grouped, at, bounded_lines, cells, files_fingerprint, opened, records
from kbnav.knowledge.skb.schema import MEMORY, EdgeArrays, EdgeRecord, Losses, NodeRecord, Style, refuse_unbounded

NODES = "node_info.pkl"
EDGES, EDGE_TYPES, NODE_TYPES = "edge_index.pt", "edge_types.pt", "node_types.pt"
NODE_NAMES, EDGE_NAMES = "node_type_dict.pkl", "edge_type_dict.pkl"

AMAZON_TYPES = ("product", "brand", "category", "color")
AMAZON_RELATIONS = ("also_buy", "also_view", "has_brand", "has_category", "has_color")
MAG_NODE_TYPES = {0: "author", 1: "institution", 2: "field_of_study", 3: "paper"}
MAG_RELATIONS = {
    0: "author___affiliated_with___institution",
    1: "paper___cites___paper",
    2: "paper___has_topic___field_of_study",
    3: "author___writes___paper",
}
"""MAG's names are not in its files."""
_NAME_FIELDS: Mapping[Style, Sequence[str]] = {
    "stark-amazon": ("title", "brand_name", "category_name", "color_name"),
    "stark-mag": ("title", "DisplayName"),
    "stark-prime": ("name",),
}


class StarkSource:
    """One of STaRK's three knowledge bases, from the folder its files are in."""

    def __init__(self, folder: Path, memory: int = MEMORY) -> None:
        """Files, also of ``cache/<link types>/``; ``memory``: bytes of one beside itself. Raises UsageError."""
        self._memory = memory
        found = [path.parent for path in (folder / NODES, *sorted(folder.glob(f"cache/*/{NODES}"))) if path.is_file()]
        if not found:
            raise UsageError(f"{folder}: there is no {NODES} here; give the folder of STaRK's processed files")
        self._folder = found[-1]
        missing = [name for name in (EDGES, EDGE_TYPES, NODE_TYPES) if not (self._folder / name).is_file()]
        if missing:
            raise UsageError(f"{self._folder}: {', '.join(missing)} missing beside {NODES}")
        files = sorted(path for path in self._folder.iterdir() if path.suffix in (".pkl", ".pt"))
        self.fingerprint = files_fingerprint(files)
        # In STaRK's order, which its documents' order of neighbours depends on.
        self.types = self._names(NODE_NAMES, MAG_NODE_TYPES)
        self.relations = self._names(EDGE_NAMES, MAG_RELATIONS)
        self.style: Style = "stark-amazon" if "product" in self.types else "stark-prime"
        if "paper" in self.types:
            self.style = "stark-mag"
        self.alias_fields = ("details.alias",) if self.style == "stark-prime" else ()
        self.description = f"STaRK's saved files ({self.style.removeprefix('stark-')})"

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        """The nodes by STaRK's number. Raises DataError."""
        info = read_pickle(self._folder / NODES, memory=self._memory)
        kinds, names = read_tensor(self._folder / NODE_TYPES, memory=self._memory), dict(enumerate(self.types))
        if not isinstance(info, dict) or len(info) != len(kinds):
            raise DataError(f"{self._folder / NODES}: not one record for each of the {len(kinds)} node types")
        for number, kind in enumerate(kinds.astype(int).tolist()):
            try:
                fields, kind_name = info.pop(number), names[kind]
            except KeyError as error:
                raise DataError(f"{self._folder / NODES}: node {number} or its type {kind} is missing") from error
            if not isinstance(fields, dict):
                raise DataError(f"{self._folder / NODES}: node {number} has no fields, but is {type(fields).__name__}")
            refuse_unbounded(fields, self._memory, f"{self._folder / NODES}, node {number}")
            yield stark_node(number, kind_name, fields, self.style)

    def edges(self, losses: Losses) -> Iterator[EdgeArrays]:  # noqa: ARG002
        """All edges at once. Raises DataError."""
        index, kinds = (
            read_tensor(self._folder / EDGES, memory=self._memory),
            read_tensor(self._folder / EDGE_TYPES, memory=self._memory),
        )
        if index.ndim != 2 or index.shape[0] != 2 or kinds.shape != index.shape[1:]:
            raise DataError(f"{self._folder / EDGES}: shape {index.shape} does not fit {kinds.shape} edge types")
        yield EdgeArrays(index[0], kinds, index[1])

    def _names(self, file: str, otherwise: Mapping[int, str]) -> list[str]:
        path = self._folder / file
        if not path.is_file():
            return list(otherwise.values())
        names = read_pickle(path, memory=self._memory)
        if not isinstance(names, dict) or sorted(names) != list(range(len(names))):
            raise DataError(f"{path}: not a table of names, numbered from 0")
        return [str(names[number]) for number in range(len(names))]


def stark_node(number: int, kind: str, fields: Mapping[str, Any], style: Style) -> NodeRecord:
    """A node as STaRK's files have it: its name from the field that the style has it in, the others its document."""
    field = next((field for field in _NAME_FIELDS[style] if field in fields), "")
    name = " ".join(str(fields.get(field, "")).split())
    # The name is kept apart; where it was tidied, the document keeps it as it was.
    left_out = ("type", field) if fields.get(field) == name else ("type",)
    return NodeRecord(
        str(number), kind, name, _plain({key: value for key, value in fields.items() if key not in left_out})
    )


def _plain(value: Any, *, in_list: bool = False) -> Any:
    """JSON values; as STaRK does, without the entries of a table that are empty or not a number, but for lists' own."""
    if isinstance(value, Mapping):
        return {
            str(key): item if type(item) is str else _plain(item, in_list=in_list)
            for key, item in value.items()
            if in_list or isinstance(item, (dict, list)) or str(item) not in ("", "nan")
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, in_list=True) for item in value]
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


GRAPH = "kg.csv"
FEATURES = ("drug_features", "disease_features")
EXTENDED = "primekg_metadata_extended.pkl"
TYPES = (
    "disease", "gene/protein", "molecular_function", "drug", "pathway", "anatomy", "effect/phenotype",
    "biological_process", "cellular_component", "exposure",
)  # fmt: skip
RELATIONS = (
    "ppi", "carrier", "enzyme", "target", "transporter", "contraindication", "indication", "off-label use",
    "synergistic interaction", "associated with", "parent-child", "phenotype absent", "phenotype present",
    "side effect", "interacts with", "linked to", "expression present", "expression absent",
)  # fmt: skip
_NODE = ("index", "id", "type", "name", "source")


class PrimeKGSource:
    """PrimeKG's files, from the folder that they are in."""

    style: Style = "stark-prime"
    types: Sequence[str] = TYPES
    relations: Sequence[str] = RELATIONS
    alias_fields: Sequence[str] = ("details.alias",)
    description = "PrimeKG's published files"

    def __init__(self, folder: Path, memory: int = MEMORY) -> None:
        """``memory``: bytes of a line, or a pickle beside itself. Raises UsageError without ``kg.csv`` or features."""
        self._graph, self._memory = _found(folder, "kg"), memory
        self._features = [_found(folder, name) for name in FEATURES]
        extended = folder / EXTENDED
        self._extended = extended if extended.is_file() else None
        self.fingerprint = files_fingerprint([self._graph, *self._features, *filter(None, [self._extended])])

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """The nodes by their number. Raises DataError."""
        nodes = self._ends()
        details = self._details(losses)
        described = {kind: found for kind in TYPES if (found := self._described(kind, losses))}
        for number in sorted(nodes):
            node_id, kind, name, source = nodes[number]
            fields: dict[str, Any] = {"id": node_id, "type": kind, "name": name, "source": source}
            more = details.pop(number, None) or _of(described.get(kind, {}), node_id, name)
            if more:
                refuse_unbounded(more, self._memory, f"{self._extended}, {name}")
                fields["details"] = more
            yield stark_node(number, kind, fields, self.style)
        for number in details:
            losses.add("features of a node that the graph does not have", str(number))

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:  # noqa: ARG002
        """The edges as they are listed, both ways. Raises DataError."""
        for _, (source, relation, target) in self._columns(("x_index", "display_relation", "y_index")):
            yield EdgeRecord(source, relation, target)

    def _ends(self) -> dict[int, tuple[str, str, str, str]]:
        nodes: dict[int, tuple[str, str, str, str]] = {}
        seen: set[str] = set()
        for line, both in self._columns([f"{side}_{name}" for side in "xy" for name in _NODE]):
            for number, node_id, kind, name, source in (both[: len(_NODE)], both[len(_NODE) :]):
                if number in seen:
                    continue
                seen.add(number)
                if not number.isdecimal():
                    raise DataError(f"{at(self._graph, line)}: the number of a node is {number!r}")
                nodes[int(number)] = (node_id, kind, name, source)
        return nodes

    def _columns(self, names: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
        lines = cells(self._graph, self._memory)
        _, header = next(lines, (0, []))
        missing = [name for name in names if name not in header]
        if missing:
            raise DataError(f"{self._graph}: not PrimeKG's table of edges: no column {', '.join(missing)}")
        pick = itemgetter(*(header.index(name) for name in names))
        for number, line in lines:
            yield number, pick(line)

    def _details(self, losses: Losses) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for path in self._features:
            for line, record in records(path, self._memory):
                number = str(record.get("node_index", ""))
                if not number.isdecimal():
                    raise DataError(f"{at(path, line)}: node_index {number!r} is no number")
                values = {key: value for key, value in record.items() if key != "node_index" and value}
                if found.setdefault(int(number), values) is not values:
                    losses.add("further lines of features for a node (the first is kept)", f"{path.name}: {number}")
        return found

    def _described(self, kind: str, losses: Losses) -> Mapping[Any, Any]:
        if self._extended is None:
            return {}
        if not hasattr(self, "_metadata"):
            self._metadata = read_pickle(self._extended, memory=self._memory)
        found = self._metadata.get(kind, {}) if isinstance(self._metadata, dict) else None
        if not isinstance(found, dict):
            raise DataError(f"{self._extended}: not tables by type")
        if kind != "pathway":
            return found
        named = {}
        for one in found.values():
            name = one.get("name") if isinstance(one, dict) else None
            if isinstance(name, list) and name:
                named[name[0]] = one
            else:
                losses.add("pathway without a name in the extended metadata", str(one)[:40])
        return named


def _of(described: Mapping[Any, Any], node_id: str, name: str) -> dict[str, Any]:
    """What is said of one node, without what is empty: functions, processes and components by id, others by name."""
    keys = (node_id, int(node_id) if node_id.isdecimal() else node_id, name)
    found: Mapping[Any, Any] = next((described[key] for key in keys if isinstance(described.get(key), dict)), {})
    return {str(key): value for key, value in found.items() if value is not None and value != [""]}


def _found(folder: Path, name: str) -> Path:
    names = [f"{name}{suffix}" for suffix in (".csv", ".tab", ".tsv", ".csv.gz")]
    path = next((folder / one for one in names if (folder / one).is_file()), None)
    if path is None:
        raise UsageError(f"{folder}: there is no {' or '.join(names)}; docs/skb-format.md says what to download")
    return path


ANY = "any"
"""In place of a language: all papers that have a text."""
TEXTS = ("idx_title_abs", "idx_title", "idx_abs")
_BLOCK = 1_000_000
_COUNTS = {"DisplayName": 3, "PaperCount": 5, "CitationCount": 6}
TABLES: Mapping[str, tuple[str, Mapping[str, int]]] = {
    "author": ("Authors", _COUNTS),
    "institution": ("Affiliations", {"DisplayName": 3, "PaperCount": 7, "CitationCount": 8}),
    "field_of_study": ("FieldsOfStudy", {"DisplayName": 3, "Level": 5, "PaperCount": 6, "CitationCount": 7}),
    "paper": ("Papers", {"Year": 7, "Date": 8, "PaperCitationCount": 18, "OriginalVenue": 20}),
}
"""The table of each type, and its columns from 0 (the schema of March 2019); the first is the entity's number."""
VENUES: Mapping[str, tuple[str, int, int]] = {
    "JournalDisplayName": ("Journals", 10, 3),
    "ConferenceSeriesDisplayName": ("ConferenceSeries", 11, 3),
    "ConferenceInstancesDisplayName": ("ConferenceInstances", 12, 2),
}
"""Of each field: the table, the column of ``Papers`` with the number in it, and that of the name in the table."""
_ENDS = {relation: (name.split("___")[0], name.split("___")[2]) for relation, name in MAG_RELATIONS.items()}
Numbers = npt.NDArray[np.int64]
Positions = Mapping[str, Numbers]
"""By type, and by an entity's place in ogbn-mag, the number of its node; -1 where it becomes none."""


class MagSource:
    """Papers, authors, institutions, fields of study from ogbn-mag, with texts, as STaRK makes its MAG of them.

    The Open Graph Benchmark (Hu et al., 2020) publishes the graph: ``raw/relations/*/edge.csv.gz`` and, in
    ``mapping/``, the number of every entity in the Microsoft Academic Graph. Titles and abstracts are published for
    ogbn-papers100M, by that number: ``idx_title.tsv`` and ``idx_abs.tsv``; or in one with a header,
    ``idx_title_abs.tsv``, as STaRK has it. Names, counts, dates and venues are in the Microsoft Academic Graph's own
    tables of March 2019 (``Authors.txt.gz`` …), each of which is read where it is there.

    As in STaRK (the published code), papers are those with a text, authors those who wrote one of them, institutions
    those of these authors, and fields of study those of these papers; they are numbered in this order. Papers in other
    languages are left out, which the published code announces and does not do.
    """

    style: Style = "stark-mag"
    types: Sequence[str] = tuple(MAG_NODE_TYPES.values())
    relations: Sequence[str] = tuple(MAG_RELATIONS.values())
    alias_fields: Sequence[str] = ()

    def __init__(self, folder: Path, memory: int = MEMORY, *, language: str = "en") -> None:
        """In ``folder``, or ``mag`` or ``ogbn_mag`` in it; ``language``: of the papers to keep. Raises UsageError."""
        roots = [folder, folder / "mag", folder / "ogbn_mag"]
        root = next((one for one in roots if (one / "raw" / "relations").is_dir()), None)
        if root is None:
            raise UsageError(f"{folder}: there is no raw/relations here; docs/skb-format.md says what to download")
        self._edges = [root / "raw" / "relations" / name / "edge.csv.gz" for name in self.relations]
        self._mappings = {kind: root / "mapping" / f"{kind}_entidx2name.csv.gz" for kind in self.types}
        found = {name: _first(folder, (".tsv", ".tsv.gz"), name, f"paperinfo/{name}") for name in TEXTS}
        whole = found[TEXTS[0]]
        self._texts = [whole] if whole else [path for name in TEXTS[1:] if (path := found[name])]
        if not self._texts:
            raise UsageError(f"{folder}: there is no idx_title_abs.tsv, nor idx_title.tsv and idx_abs.tsv")
        names = [table for table, _ in TABLES.values()] + [table for table, _, _ in VENUES.values()]
        given = {name: _first(folder, (".txt.gz", ".txt"), name, f"mag_mapping/{name}") for name in names}
        self._tables = {name: path for name, path in given.items() if path}
        self._language, self._memory = language, memory
        self._positions: Positions = {}
        papers = "all papers" if language == ANY else f"papers in {language}"
        described = [*self._texts, *self._tables.values()]
        self.description = f"ogbn-mag, {papers}, with {', '.join(path.name for path in described)}"
        self.fingerprint = files_fingerprint([*self._edges, *self._mappings.values(), *described], language)

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Authors, institutions, fields of study and papers. Raises DataError."""
        for name in (table for table, _ in TABLES.values() if table not in self._tables):
            losses.add("tables of names that are not there", name)
        entities = {kind: self._entities(kind) for kind in self.types}
        papers = entities["paper"]
        with Grouped(len(papers) or 1) as texts:
            positions = self._read_texts(papers, texts, losses)
            for kind in self.types:
                with Grouped(len(entities[kind]) or 1) as described:
                    self._describe(kind, entities[kind], positions[kind], described)
                    said = zip(described, texts, strict=True) if kind == "paper" else ((one, []) for one in described)
                    for place, (lines, text) in zip(range(len(entities[kind])), said, strict=False):
                        number = int(positions[kind][place])
                        if number >= 0:
                            yield self._node(number, kind, int(entities[kind][place]), [*lines, *text])

    def edges(self, losses: Losses) -> Iterator[EdgeArrays]:  # noqa: ARG002  # what is left out, a node lacks
        """The edges between what is kept, a relation after the other. Raises DataError."""
        if not self._positions:
            papers = self._entities("paper")
            with Grouped(len(papers) or 1) as texts:
                self._read_texts(papers, texts, Losses())
        for relation, (source, target) in _ENDS.items():
            for edges in self._blocks(self._edges[relation]):
                ends = self._positions[source][edges[:, 0]], self._positions[target][edges[:, 1]]
                both = (ends[0] >= 0) & (ends[1] >= 0)
                yield EdgeArrays(ends[0][both], np.full(int(both.sum()), relation), ends[1][both])

    def _entities(self, kind: str) -> Numbers:
        """The number of each entity of a kind, by its place."""
        found = np.concatenate([np.empty((0, 2), np.int64), *self._blocks(self._mappings[kind], header=1)])
        if not np.array_equal(found[:, 0], np.arange(len(found))):
            raise DataError(f"{self._mappings[kind]}: places that are not 0, 1, 2 …")
        return found[:, 1]

    def _read_texts(self, papers: Numbers, into: Grouped, losses: Losses) -> Positions:
        places = {number: place for place, number in enumerate(papers.tolist())}
        for path in self._texts:
            for number, texts in self._lines(path):
                place = places.get(number, -1)
                if place >= 0:
                    into.add(place, json.dumps(texts).encode())
        wanted = np.zeros(len(papers), bool)
        for place, lines in zip(range(len(papers)), into, strict=False):
            text = ". ".join(value for line in lines for value in json.loads(line).values() if value)
            if not text:
                losses.add("paper without a title or an abstract", str(papers[place]))
            elif self._language != ANY and question_language(text) != self._language:
                losses.add(f"paper in another language than {self._language}", f"{papers[place]} {text[:60]}")
            else:
                wanted[place] = True
        self._positions = self._connected(wanted)
        return self._positions

    def _lines(self, path: Path) -> Iterator[tuple[int, dict[str, str]]]:
        field = {TEXTS[1]: "title", TEXTS[2]: "abstract"}.get(path.name.split(".")[0])
        with opened(path) as file:
            lines = bounded_lines(path, file, self._memory)
            try:
                if field:
                    for line in lines:
                        number, _, text = line.rstrip("\r\n").partition("\t")
                        yield int(number), {field: text}
                    return
                csv.field_size_limit(self._memory)
                rows = csv.reader(lines, delimiter="\t", strict=True)
                next(rows, None)
                for number, title, abstract in rows:
                    yield int(float(number)), {"title": title, "abstract": abstract}
            except (ValueError, csv.Error) as error:
                raise DataError(f"{path}: {error}") from error

    def _connected(self, papers: npt.NDArray[np.bool_]) -> Positions:
        """What hangs together with the papers."""
        kept = {"paper": papers}
        for relation, kind in ((3, "author"), (2, "field_of_study"), (0, "institution")):
            source, target = _ENDS[relation]
            found = np.zeros(len(self._entities(kind)), bool)
            known, at, other = (source, 0, 1) if target == kind else (target, 1, 0)
            for edges in self._blocks(self._edges[relation]):
                found[edges[kept[known][edges[:, at]], other]] = True
            kept[kind] = found
        first = [0, *accumulate(int(kept[kind].sum()) for kind in self.types)]
        return {
            kind: np.where(kept[kind], first[number] + np.cumsum(kept[kind]) - 1, -1)
            for number, kind in enumerate(self.types)
        }

    def _blocks(self, path: Path, header: int = 0) -> Iterator[Numbers]:
        """Pairs of numbers, shape [lines, 2] each."""
        with opened(path) as file:
            lines = islice(bounded_lines(path, file, self._memory), header, None)
            try:
                while block := list(islice(lines, _BLOCK)):
                    yield np.loadtxt(block, np.int64, delimiter=",", ndmin=2, usecols=(0, 1))
            except ValueError as error:
                raise DataError(f"{path}: {error}") from error

    def _describe(self, kind: str, entities: Numbers, positions: Numbers, into: Grouped) -> None:
        table, columns = TABLES[kind]
        if table not in self._tables:
            return
        places = {number: place for place, number in enumerate(entities.tolist()) if positions[place] >= 0}
        known = [(field, *one) for field, one in VENUES.items() if kind == "paper" and one[0] in self._tables]
        venues = [(field, to, {line[0]: line[at] for line in self._rows(own)}) for field, own, to, at in known]
        for line in self._rows(table):
            place = places.get(int(line[0]), -1)
            if place < 0:
                continue
            fields = {field: line[column] for field, column in columns.items()}
            fields |= {field: names.get(line[to], "") for field, to, names in venues}
            into.add(place, json.dumps({field: value for field, value in fields.items() if value}).encode())

    def _rows(self, table: str) -> Iterator[list[str]]:
        path = self._tables[table]
        with opened(path) as file:
            for line in bounded_lines(path, file, self._memory):
                parts = line.rstrip("\r\n").split("\t")
                if not parts[0].isdecimal() or len(parts) < 7:
                    raise DataError(f"{path}: not a table of the Microsoft Academic Graph: {line[:80]!r}")
                yield parts

    def _node(self, number: int, kind: str, entity: int, said: Sequence[bytes]) -> NodeRecord:
        fields: dict[str, Any] = {"type": kind, "mag_id": entity}
        for line in said:
            fields |= json.loads(line)
        for key, value in fields.items():
            if key.endswith(("Count", "Level", "Year")) and str(value).isdecimal():
                fields[key] = int(value)
        if kind == "paper":
            fields = {"title": "", "abstract": "", **fields}
        return stark_node(number, kind, fields, self.style)


def _first(folder: Path, suffixes: Sequence[str], *names: str) -> Path | None:
    paths = (folder / f"{name}{suffix}" for name in names for suffix in suffixes)
    return next((path for path in paths if path.is_file()), None)


# A pickle is a program: it may name any function and call it. The reader here knows the few names that plain data,
# NumPy values and tensors need, answers each with a stand-in of its own that only holds data, and refuses every other.

_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "|b1",
}
_DAMAGE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a damaged pickle can raise."""
_UNPACKED = 40
"""How many times its file the data of a pickle may take: a small number has two bytes there, and thirty in memory."""
_KINDS = frozenset("biufSU")
"""NumPy kinds that are plain values: boolean, integers, floats, bytes, text."""


def read_pickle(path: Path, *, memory: int = MEMORY) -> Any:
    """Plain data from a ``.pkl`` file; NumPy scalars and arrays in it become Python's numbers and lists.

    ``memory`` is in bytes, beside what the file itself has. Raises UsageError where the file is missing, DataError
    where it is damaged, takes more memory, or names anything that is not data.
    """
    with _opened(path) as file, bounded(memory + _UNPACKED * path.stat().st_size):
        return _load(_Reader(file), path)


def read_tensor(path: Path, *, memory: int = MEMORY) -> npt.NDArray[Any]:
    """The one tensor that ``torch.save`` put in a ``.pt`` file (the zip format, of PyTorch 1.6 and later).

    ``memory`` is in bytes. Raises UsageError where the file is missing, DataError where it is damaged, takes more
    memory, or holds anything but a tensor.
    """

    def content(archive: zipfile.ZipFile, name: str) -> bytes:
        if archive.getinfo(name).file_size > memory:
            raise DataError(f"{path}: {name} is larger than {memory / (1 << 20):g} MiB")
        return archive.read(name)

    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            pickles = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            if len(pickles) != 1:
                raise DataError(f"{path}: not a tensor as torch.save writes it: it has no data.pkl")
            root = pickles[0].removesuffix("data.pkl")
            if f"{root}byteorder" in archive.namelist() and content(archive, f"{root}byteorder") != b"little":
                raise DataError(f"{path}: a tensor of a big-endian machine cannot be read")
            program = io.BytesIO(content(archive, pickles[0]))
            with bounded(3 * memory):  # a storage, as it is unpacked, and the tensor
                found = _load(_TensorReader(program, lambda key: content(archive, f"{root}data/{key}")), path)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, RuntimeError, OSError) as error:
        raise DataError(f"{path}: {error}; tensors must be in the zip format of PyTorch 1.6 and later") from error
    if not isinstance(found, np.ndarray):
        raise DataError(f"{path}: holds {type(found).__name__}, not one tensor")
    return found


@contextmanager
def bounded(memory: int) -> Iterator[None]:
    """Let the process take so many bytes more; beyond them, Python and NumPy raise MemoryError. On Linux only.

    A pickle of ten bytes can ask for gigabytes before anything else is looked at.
    """
    status = Path("/proc/self/status")
    held = re.search(r"VmData:\s+(\d+)", status.read_text()) if status.is_file() else None
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(held[1]) * 1024 + memory if held else 0
    if not held or any(one != resource.RLIM_INFINITY and one < limit for one in (soft, hard)):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _load(reader: pickle.Unpickler, path: Path) -> Any:
    try:
        return reader.load()
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except MemoryError as error:
        raise DataError(f"{path}: takes more memory than it may") from error
    except _DAMAGE as error:
        raise DataError(f"{path}: damaged: {error!r}") from error


class _Reader(pickle.Unpickler):
    _known: dict[tuple[str, str], Any]

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._known = {
            ("collections", "OrderedDict"): dict,
            ("_codecs", "encode"): _latin1,
            ("__builtin__", "bytes"): lambda: b"",
            ("numpy", "dtype"): _Dtype,
            ("numpy", "ndarray"): _NAME_ONLY,
        }
        for package in ("numpy.core", "numpy._core"):
            self._known[f"{package}.multiarray", "scalar"] = _scalar
            self._known[f"{package}.multiarray", "_reconstruct"] = lambda *_: _Array()
            self._known[f"{package}.numeric", "_frombuffer"] = _from_buffer

    def find_class(self, module: str, name: str) -> Any:
        """Called for each name in the file."""
        try:
            return self._known[module, name]
        except KeyError as error:
            raise DataError(f"refused, because it asks for {module}.{name}, which is not data") from error


class _TensorReader(_Reader):
    """Unpickles one tensor; ``storage`` gives the bytes of a storage by its key."""

    def __init__(self, file: IO[bytes], storage: Callable[[str], bytes]) -> None:
        super().__init__(file)
        self._storage = storage
        self._known["torch._utils", "_rebuild_tensor_v2"] = _tensor
        for name, dtype in _STORAGES.items():
            self._known["torch", name] = np.dtype(dtype)

    def persistent_load(self, pid: Any) -> npt.NDArray[Any]:
        """A storage, named from outside the pickle: ("storage", type, key, device, number of elements)."""
        _, dtype, key, _, size = pid
        array = np.frombuffer(self._storage(str(key)), dtype)
        if not isinstance(dtype, np.dtype) or len(array) != size:
            raise DataError(f"storage {key} does not hold the {size} values it should")
        return array


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> npt.NDArray[Any]:
    if not isinstance(storage, np.ndarray) or offset < 0 or len(size) != len(stride) or min((*size, *stride, 0)) < 0:
        raise DataError("a tensor with an impossible shape")
    last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    if math.prod(size) > len(storage):
        raise DataError("a tensor of more values than its storage has")
    if 0 not in size and last >= len(storage):
        raise DataError("a tensor that reaches behind its storage")
    bytes_stride = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(storage[offset:], size, bytes_stride, writeable=False).copy()


_NAME_ONLY = object()
"""Stands for a class that is named as an argument and never called here."""


class _Dtype:
    """Stands for ``numpy.dtype``: only plain kinds, and objects inside an array."""

    def __init__(self, code: Any, *_: Any) -> None:
        self.code = str(code)
        self.order = "<"
        if self.code[:1] not in _KINDS | {"O"}:
            raise DataError(f"NumPy values of type {self.code} are not plain data")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = ">" if state[1] == ">" else "<"

    @property
    def real(self) -> np.dtype[Any]:
        """The dtype itself. Raises DataError for objects."""
        if self.code.startswith("O"):
            raise DataError("NumPy values of type object are not plain data")
        return np.dtype(self.order + self.code)


class _Array(list[Any]):
    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, _, content = state
        if len(shape) != 1 or not isinstance(dtype, _Dtype):
            raise DataError("NumPy arrays of other than one dimension are not read")
        self.extend(content if isinstance(content, list) else np.frombuffer(content, dtype.real).tolist())


def _from_buffer(content: Any, dtype: Any, shape: tuple[int, ...], *_: Any) -> list[Any]:
    array = _Array()
    array.__setstate__((1, shape, dtype, False, content))
    return array


def _scalar(dtype: Any, content: bytes = b"") -> Any:
    if not isinstance(dtype, _Dtype):
        raise DataError("a NumPy scalar without a type")
    return np.frombuffer(content, dtype.real)[0].item()


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise DataError(f"refused, because it asks for the encoding {encoding}")
    return text.encode("latin1")
