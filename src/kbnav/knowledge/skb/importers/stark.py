"""STaRK's saved knowledge bases.

The files are ``node_info.pkl``, ``edge_index.pt``, ``edge_types.pt``, ``node_types.pt`` and, for two of the three,
``node_type_dict.pkl`` and ``edge_type_dict.pkl``. STaRK numbers nodes and names answers by those numbers, so they are
the ids here. Edges are read as they are stored, before STaRK's loader makes them undirected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.pickles import read_pickle, read_tensor
from kbnav.knowledge.skb.importers.tables import files_fingerprint
from kbnav.knowledge.skb.records import MEMORY, EdgeArrays, Losses, NodeRecord, refuse_unbounded
from kbnav.knowledge.skb.schema import Style

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
        """Find the files, also in ``cache/<link types>/`` as of Amazon. Raises UsageError where there are none.

        ``memory`` is what a file may take beside itself, and a node, in bytes.
        """
        self._memory = memory
        found = [path.parent for path in (folder / NODES, *sorted(folder.glob(f"cache/*/{NODES}"))) if path.is_file()]
        if not found:
            raise UsageError(f"{folder}: there is no {NODES} here; give the folder of STaRK's processed files")
        self._folder = found[-1]
        missing = [name for name in (EDGES, EDGE_TYPES, NODE_TYPES) if not (self._folder / name).is_file()]
        if missing:
            raise UsageError(f"{self._folder}: {', '.join(missing)} missing beside {NODES}")

    @property
    def description(self) -> str:
        """Which of STaRK's knowledge bases it is."""
        return f"STaRK's saved files ({self.style.removeprefix('stark-')})"

    @property
    def fingerprint(self) -> str:
        """Of the files' names, sizes and times."""
        return files_fingerprint(sorted(path for path in self._folder.iterdir() if path.suffix in (".pkl", ".pt")))

    @cached_property
    def style(self) -> Style:
        """Told apart by their node types."""
        names = set(self._node_names.values())
        return "stark-mag" if "paper" in names else "stark-amazon" if "product" in names else "stark-prime"

    @property
    def types(self) -> Sequence[str]:
        """In STaRK's order, which its documents' order of neighbours depends on."""
        return list(self._node_names.values())

    @property
    def relations(self) -> Sequence[str]:
        """In STaRK's order."""
        return list(self._edge_names.values())

    @property
    def alias_fields(self) -> Sequence[str]:
        """Genes of Prime have other names."""
        return ("details.alias",) if self.style == "stark-prime" else ()

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:  # noqa: ARG002
        """The nodes by STaRK's number. Raises DataError."""
        info = read_pickle(self._folder / NODES, memory=self._memory)
        kinds = read_tensor(self._folder / NODE_TYPES, memory=self._memory)
        if not isinstance(info, dict) or len(info) != len(kinds):
            raise DataError(f"{self._folder / NODES}: not one record for each of the {len(kinds)} node types")
        for number, kind in enumerate(kinds.astype(int).tolist()):
            try:
                fields, kind_name = info.pop(number), self._node_names[kind]
            except KeyError as error:
                raise DataError(f"{self._folder / NODES}: node {number} or its type {kind} is missing") from error
            if not isinstance(fields, dict):
                raise DataError(
                    f"{self._folder / NODES}: node {number} is no table of fields, but {type(fields).__name__}"
                )
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

    @cached_property
    def _node_names(self) -> Mapping[int, str]:
        return self._names(NODE_NAMES, MAG_NODE_TYPES)

    @cached_property
    def _edge_names(self) -> Mapping[int, str]:
        return self._names(EDGE_NAMES, MAG_RELATIONS)

    def _names(self, file: str, otherwise: Mapping[int, str]) -> Mapping[int, str]:
        path = self._folder / file
        if not path.is_file():
            return otherwise
        names = read_pickle(path, memory=self._memory)
        if not isinstance(names, dict) or sorted(names) != list(range(len(names))):
            raise DataError(f"{path}: not a table of names, numbered from 0")
        return {number: str(names[number]) for number in range(len(names))}


def stark_node(number: int, kind: str, fields: Mapping[str, Any], style: Style) -> NodeRecord:
    """A node as STaRK's files have it: its name from the field that the style has it in, the others its document."""
    field = next((field for field in _NAME_FIELDS[style] if field in fields), "")
    name = " ".join(str(fields.get(field, "")).split())
    # The name is kept apart; where it was tidied, the document keeps it as it was.
    left_out = ("type", field) if fields.get(field) == name else ("type",)
    return NodeRecord(
        str(number), kind, name, _plain({key: value for key, value in fields.items() if key not in left_out})
    )


def _plain(value: Any) -> Any:
    """JSON values; as STaRK does, without the entries of a table that are empty or not a number."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items() if str(item) not in ("", "nan")}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value
