"""PrimeKG from its published files (Chandak, Huang and Zitnik, 2023), as STaRK makes its Prime of them.

``kg.csv`` has an edge a line, both ways, with number, id, type, name and source of either end. ``drug_features`` and
``disease_features`` (``.csv``, or ``.tab`` as Dataverse serves them) have texts by a node's number; of several lines
for a disease the first counts. ``primekg_metadata_extended.pkl``, which STaRK added for genes, pathways, functions,
processes and components, is read too where it lies beside. A node's id is its number in ``kg.csv``, which is STaRK's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import at, cells
from kbnav.knowledge.skb.importers.pickles import read_pickle
from kbnav.knowledge.skb.importers.stark import stark_node
from kbnav.knowledge.skb.importers.tables import files_fingerprint, records
from kbnav.knowledge.skb.records import MEMORY, EdgeRecord, Losses, NodeRecord, refuse_unbounded
from kbnav.knowledge.skb.schema import Style

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
        """Raises UsageError where ``kg.csv`` or the features of drugs or diseases are missing.

        ``memory`` is what a line, or the pickle beside itself, may take, in bytes.
        """
        self._graph, self._memory = _found(folder, "kg"), memory
        self._features = [_found(folder, name) for name in FEATURES]
        extended = folder / EXTENDED
        self._extended = extended if extended.is_file() else None

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times."""
        return files_fingerprint([self._graph, *self._features, *([self._extended] if self._extended else [])])

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """The nodes by their number. Raises DataError."""
        nodes = self._ends(losses)
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

    def edges(self, losses: Losses) -> Iterator[EdgeRecord]:
        """The edges as they are listed, both ways. Raises DataError."""
        for _, (source, relation, target) in self._columns(("x_index", "display_relation", "y_index"), losses):
            yield EdgeRecord(source, relation, target)

    def _ends(self, losses: Losses) -> dict[int, tuple[str, str, str, str]]:
        """Id, type, name and source of every node, by its number."""
        nodes: dict[int, tuple[str, str, str, str]] = {}
        seen: set[str] = set()
        for line, both in self._columns([f"{side}_{name}" for side in "xy" for name in _NODE], losses):
            for number, node_id, kind, name, source in (both[: len(_NODE)], both[len(_NODE) :]):
                if number in seen:
                    continue
                seen.add(number)
                if not number.isdecimal():
                    raise DataError(f"{at(self._graph, line)}: the number of a node is {number!r}")
                nodes[int(number)] = (node_id, kind, name, source)
        return nodes

    def _columns(self, names: Sequence[str], losses: Losses) -> Iterator[tuple[int, tuple[str, ...]]]:
        lines = cells(self._graph, losses, self._memory)
        _, header = next(lines, (0, []))
        missing = [name for name in names if name not in header]
        if missing:
            raise DataError(f"{self._graph}: not PrimeKG's table of edges: no column {', '.join(missing)}")
        pick = itemgetter(*(header.index(name) for name in names))
        for number, line in lines:
            yield number, pick(line)

    def _details(self, losses: Losses) -> dict[int, dict[str, Any]]:
        """Features by the number of the node, those that are not empty."""
        found: dict[int, dict[str, Any]] = {}
        for path in self._features:
            for line, record in records(path, losses, self._memory):
                number = str(record.get("node_index", ""))
                if not number.isdecimal():
                    raise DataError(f"{at(path, line)}: node_index {number!r} is no number")
                values = {key: value for key, value in record.items() if key != "node_index" and value}
                if found.setdefault(int(number), values) is not values:
                    losses.add("further lines of features for a node (the first is kept)", f"{path.name}: {number}")
        return found

    def _described(self, kind: str, losses: Losses) -> Mapping[Any, Any]:
        """What the extended metadata says of a type, by id or name."""
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
