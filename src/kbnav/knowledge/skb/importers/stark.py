"""STaRK's saved knowledge bases.

The files are ``node_info.pkl``, ``edge_index.pt``, ``edge_types.pt``, ``node_types.pt`` and, for two of the three,
``node_type_dict.pkl`` and ``edge_type_dict.pkl``. STaRK numbers nodes and names answers by those numbers, so they are
the ids here. Edges are read as they are stored, before STaRK's loader makes them undirected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import at, cells
from kbnav.knowledge.skb.importers.pickles import read_pickle, read_tensor
from kbnav.knowledge.skb.importers.readers import records
from kbnav.knowledge.skb.importers.tables import files_fingerprint
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
