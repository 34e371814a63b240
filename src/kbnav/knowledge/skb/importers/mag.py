"""Papers, authors, institutions and fields of study from ogbn-mag, with texts, as STaRK makes its MAG of them.

The Open Graph Benchmark (Hu et al., 2020) publishes the graph: ``raw/relations/*/edge.csv.gz`` and, in ``mapping/``,
the number of every entity in the Microsoft Academic Graph. Titles and abstracts are published for ogbn-papers100M, by
that number: ``idx_title.tsv`` and ``idx_abs.tsv``; or in one with a header, ``idx_title_abs.tsv``, as STaRK has it.
Names, counts, dates and venues are in the Microsoft Academic Graph's own tables of March 2019 (``Authors.txt.gz`` …),
each of which is read where it is there.

As in STaRK (the published code), papers are those with a text, authors those who wrote one of them, institutions those
of these authors, and fields of study those of these papers; they are numbered in this order. Papers in other languages
are left out, which the published code announces and does not do.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbnav.answers.language import question_language
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.importers.files import Grouped, bounded_lines, opened
from kbnav.knowledge.skb.importers.stark import MAG_NODE_TYPES, MAG_RELATIONS, stark_node
from kbnav.knowledge.skb.importers.tables import files_fingerprint
from kbnav.knowledge.skb.schema import MEMORY, EdgeArrays, Losses, NodeRecord, Style

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
    """The files, from the folder that they are in, or ``mag`` or ``ogbn_mag`` in it."""

    style: Style = "stark-mag"
    types: Sequence[str] = tuple(MAG_NODE_TYPES.values())
    relations: Sequence[str] = tuple(MAG_RELATIONS.values())
    alias_fields: Sequence[str] = ()

    def __init__(self, folder: Path, memory: int = MEMORY, *, language: str = "en") -> None:
        """``language`` is that of the papers to keep. Raises UsageError where files are missing."""
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
