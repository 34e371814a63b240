"""Looking after a built SKB: what it holds, whether it is whole, and changing some of its nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

import numpy as np

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.open import open_skb
from kbnav.knowledge.skb.build import Options, Updated, build, job_of
from kbnav.knowledge.skb.files import LOCK, Array, file_info, remove_unused
from kbnav.knowledge.skb.graph import edge_key, edges_of
from kbnav.knowledge.skb.importers.tables import Recipe, TableSource, bad_lines_file
from kbnav.knowledge.skb.schema import Dropped, Losses, Meta, Progress, Source, is_lance, no_progress, read_meta
from kbnav.knowledge.skb.store import SKB
from kbnav.runs.journal import locked

_BARE = Options(text=False, vectors=False, sparql=False)
_SAMPLED, _VALUE = 50, 60
"""Nodes of a type whose fields are told; characters of a value that changes."""


@dataclass(frozen=True)
class Info:
    """What ``kbnav skb info`` shows; ``bytes`` by part of the data, as in ``graph``."""

    meta: Meta
    bytes: dict[str, int]
    isolated: int
    """Nodes without an edge."""
    largest_degree: int
    largest_degree_node: str
    """Id of the node with the most edges."""
    published_relations: int
    """The relations as STaRK's Table 2 counts them: of Amazon and MAG two for any nodes with an edge between them, for
    its loader makes them undirected; elsewhere the edges as saved."""
    approximate: bool
    """Whether there is an approximate index of the vectors."""
    fields: dict[str, dict[str, str]]
    """By type the fields of its first nodes' documents, each with its first value."""

    def record(self) -> dict[str, Any]:
        """As plain JSON data: the description without its files, and what is worked out from it (STaRK, Table 2)."""
        return {
            **self.meta.model_dump(mode="json", exclude={"files"}),
            "nodes": self.meta.nodes,
            "edges": self.meta.edges,
            "average_degree": self.meta.average_degree,
            "published_degree": 2 * self.published_relations / max(1, self.meta.nodes),
            **{name: value for name, value in vars(self).items() if name not in ("meta", "approximate")},
        }


def info(place: Path | str, home: Path | None = None) -> Info:
    """Describe an SKB, wherever it is; ``home`` as of ``open_skb``. Raises as that."""
    with open_skb(str(place), home) as skb:
        degrees = skb.graph.degrees("out") + skb.graph.degrees("in")
        largest = int(degrees.argmax()) if len(degrees) else -1
        return Info(
            meta=skb.meta,
            bytes=skb.sizes(),
            isolated=int((degrees == 0).sum()),
            largest_degree=int(degrees[largest]) if len(degrees) else 0,
            largest_degree_node=skb.id(largest) if len(degrees) else "",
            published_relations=_published_relations(skb),
            approximate=skb.approximate,
            fields=_fields(skb),
        )


def _fields(skb: SKB) -> dict[str, dict[str, str]]:
    found = dict[str, dict[str, str]]()
    for kind in skb.type_names:
        for node in range(*skb.type_range(kind))[:_SAMPLED]:
            for name, value in skb.documents[node].items():
                if not found.setdefault(kind, {}).get(name):
                    found[kind][name] = " ".join(str(value).split()) if value not in (None, [], {}) else ""
    return found


def _published_relations(skb: SKB) -> int:
    if skb.meta.style not in ("stark-amazon", "stark-mag"):
        return skb.meta.edges
    sources, _, targets = skb.graph.columns()
    pairs = np.unique(np.minimum(sources, targets) * skb.graph.nodes + np.maximum(sources, targets))
    return int(2 * len(pairs) - (pairs // skb.graph.nodes == pairs % skb.graph.nodes).sum())


def check(path: Path | str, home: Path | None = None, *, progress: Progress = no_progress) -> list[str]:
    """Read all of an SKB and compare it with its checksums; returns the faults, none where it is whole.

    ``home`` as of ``open_skb``. Raises UsageError where it is not an SKB, DataError where its description itself is
    damaged or too new.
    """
    place = str(path)
    if is_lance(place):
        from kbnav.knowledge.skb.lance import check as check_tables

        faults = check_tables(place, progress)
    else:
        faults = _check_files(Path(place), progress)
    if not faults:
        try:
            open_skb(place, home).close()
        except DataError as error:
            faults.append(str(error))
    return faults


def _check_files(path: Path, progress: Progress) -> list[str]:
    meta = read_meta(path)
    data = path / meta.data
    faults = []
    for done, (name, expected) in enumerate(meta.files.items(), 1):
        progress("check", done, len(meta.files))
        try:
            found = file_info(data / name)
        except OSError as error:
            faults.append(f"{meta.data}/{name}: {error.strerror}")
            continue
        if found.bytes != expected.bytes:
            faults.append(f"{meta.data}/{name}: {found.bytes} bytes where {expected.bytes} were written")
        elif found != expected:
            faults.append(f"{meta.data}/{name}: its content is not what was written")
    return faults


def preview(recipe: Recipe, *, progress: Progress = no_progress) -> Meta:
    """What a build would say of its nodes and edges, without making one. Raises as ``build``."""
    with TemporaryDirectory(prefix="kbnav-") as folder:
        return build(_aside(recipe, Path(folder)).source(), Path(folder) / "skb", _BARE, progress=progress)


def _aside(recipe: Recipe, folder: Path) -> Recipe:
    """The same, with lines that cannot be read put into a folder."""
    return recipe.model_copy(update={"bad": recipe.bad and folder / recipe.bad.name})


@contextmanager
def _reread(
    path: Path, meta: Meta, losses: Losses, progress: Progress, *, skip: bool, aside: Path | None = None
) -> Iterator[Source]:
    """What an SKB's files say now, with its updates over it; what these override goes to ``losses``.

    Lines that cannot be read are left out with ``skip``; those that are left out go into the folder ``aside``.
    """
    if not meta.recipe:
        raise UsageError(f"{path} does not know its files: give the changed records with --nodes and --edges")
    whole = Recipe.model_validate(meta.recipe).moved(path, Path())
    layers = []
    for number, layer in enumerate([whole, *whole.updates]):
        for given in (*layer.nodes, *layer.edges) if number else ():
            if not (given.address or all(file.path.exists() for file in given.matching())):
                raise UsageError(f"{given}: no such file; an update of {path} came from it: put it back, or build anew")
        bad = layer.bad or (bad_lines_file(path, number) if skip else None)
        layers.append(layer.model_copy(update={"bad": aside / bad.name if aside and bad else bad}))
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="kbnav-")))
        source = layers[0].source(opened.enter_context(SKB.open(path)), whole=True)
        for number, layer in enumerate(layers[1:]):
            build(source, folder / str(number), _BARE, progress=progress)
            below = opened.enter_context(SKB.open(folder / str(number)))
            records = layer.source(below, behind=layers[: number + 1])
            source = updated = Updated(below, records)
            arrived = records.arrived[0] if isinstance(records, TableSource) else {}
            for record in updated.records[0]:
                place = below.nodes.ids.find(record.id)
                kind, name, fields = _all_of(below, place) if place >= 0 else record[1:4]
                other = _filled({**fields, **record.fields}) != _filled(fields)
                changed = record.left_out or other or (record.type or kind, record.name or name) != (kind, name)
                if changed and record.id not in arrived:
                    losses.add(f"nodes that {records.description.removeprefix('records: ')} overrides", record.id)
        yield source


def _layers(path: Path, meta: Meta) -> list[Recipe]:
    """What an SKB was built from, and its updates; without those whose mapping of tables is gone."""
    whole = Recipe.model_validate(meta.recipe).moved(path, Path()) if meta.recipe else Recipe()
    return [one for one in (whole, *whole.updates) if meta.recipe and (not one.tables or one.tables.exists())]


def _tell_values(old: SKB, number: int, new: SKB, other: int, changes: Losses) -> None:
    """Tell the values of a node that change, by the field and its type."""
    both = _all_of(old, number), _all_of(new, other)
    was, now = ({"type": kind, "name": name, **fields} for kind, name, fields in both)
    for field in {**was, **now}:
        values = was.get(field), now.get(field)
        if values[0] != values[1]:
            told = ("nothing" if one in (None, "") else shorten(str(one), _VALUE, placeholder="…") for one in values)
            changes.add(f"{field} of {old.type(number)} changes", f"{old.id(number)}: {' → '.join(told)}")


def difference(
    path: Path, records: Recipe | None = None, *, skip: bool = False, progress: Progress = no_progress
) -> dict[str, Dropped]:
    """What an update would change, with examples: ``records``, or else the files of the SKB read again.

    Nothing is written; ``skip`` is that of ``update``. Raises as that.
    """
    losses = Losses()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="kbnav-")))
        old = opened.enter_context(SKB.open(path))
        over = Updated(old, _aside(records, folder).source(old, behind=_layers(path, old.meta))) if records else None
        again = _reread(path, old.meta, losses, progress, skip=skip, aside=folder)
        build(over or opened.enter_context(again), folder / "new", _BARE, progress=progress)
        new = opened.enter_context(SKB.open(folder / "new"))
        place = np.array([new.nodes.ids.find(node_id) for node_id in old.nodes.ids], np.int64)
        for number, other in enumerate(place.tolist()):
            if other < 0:
                losses.add("nodes that go", old.id(number))
            elif _all_of(old, number) != _all_of(new, other):
                losses.add("nodes that change", old.id(number))
                _tell_values(old, number, new, other, losses)
        for other in np.setdiff1d(np.arange(new.meta.nodes), place).tolist():
            losses.add("nodes that come", new.id(other))
        gone = place < 0
        place[gone] = new.meta.nodes + np.arange(gone.sum())
        names = list(dict.fromkeys((*new.relation_names, *old.relation_names)))
        size = new.meta.nodes + int(gone.sum())
        before = _edge_keys(old, place, names, size)
        after = _edge_keys(new, np.arange(new.meta.nodes), names, size)
        ids = [*new.nodes.ids, *(old.id(number) for number in np.flatnonzero(gone).tolist())]
        for what, keys in (("go", np.setdiff1d(before, after)), ("come", np.setdiff1d(after, before))):
            for one, relation, other in zip(*edges_of(keys, size, len(names)), strict=True):
                losses.add(f"edges that {what}", f"{ids[one]} {names[relation]} {ids[other]}")
        return losses.dropped and {**losses.dropped, **new.meta.dropped_since(old.meta)}


def _all_of(skb: SKB, number: int) -> tuple[str, str, Mapping[str, Any]]:
    return skb.type(number), str(skb.nodes.names[number]), _filled(skb.documents[number])


def _filled(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "")}


def _edge_keys(skb: SKB, place: Array, names: list[str], size: int) -> Array:
    """A number for each edge, the same for the same edge; ``place`` has the numbers of the nodes, shape [nodes]."""
    sources, relations, targets = skb.graph.columns()
    known = np.array([names.index(name) for name in skb.relation_names], np.int64)
    return edge_key(place[sources], known[relations], place[targets], size, len(names))


def update(
    path: Path,
    records: Source | Recipe | None,
    options: Options,
    *,
    skip: bool = False,
    changes: Losses | None = None,
    progress: Progress = no_progress,
) -> Meta:
    """Add the nodes and edges of ``records`` to an SKB, and take away those that it marks as deleted.

    The record of a node whose id is there already changes what it names: name, type, and each of its fields. The edges
    of a node that is deleted go with it. Where all values of a field are numbers, or dates, another one in the files of
    a recipe cannot be read. What is new is built beside the data in use and put in its place in one step. Where nodes
    get new documents or names, and none comes, goes or changes its type, the rest is taken over; else all is built anew
    but vectors of texts that did not change. Without any records the indexes alone are built anew.

    None: the files that the SKB was built from are read again, in the same way, and later updates after them; what they
    no longer have is deleted. With ``skip`` what cannot be read is left out, and put into files beside the SKB.
    The values that change are told to ``changes``. Raises DataError, and UsageError where ``options`` name another
    encoder than the SKB has, or it does not know its files or they are gone.
    """
    with ExitStack() as opened:
        skb = opened.enter_context(SKB.open(path))
        meta = skb.meta
        if options.encoder_name != meta.encoder:
            has, wanted = (name or "no vectors" for name in (meta.encoder, options.encoder_name))
            raise UsageError(f"{path} was built with {has}, not {wanted}: update it with the same, or build it anew")
        recipe: Mapping[str, Any] = {} if records else meta.recipe
        if isinstance(records, Recipe) and meta.recipe:
            moved = records.moved(Path(), path).model_dump(mode="json", exclude_defaults=True)
            recipe = {**meta.recipe, "updates": [*meta.recipe.get("updates", ()), moved]}
        source = records.source(skb, behind=_layers(path, meta)) if isinstance(records, Recipe) else records
        over = Updated(skb, source) if source else None
        again = _reread(path, meta, Losses(), progress, skip=skip)
        made = build(
            over or opened.enter_context(again),
            path,
            options,
            name=meta.name,
            previous=path / meta.data,
            recipe=recipe,
            progress=progress,
            job_of=job_of(over, options) if over else None,
        )
        if changes:
            new = opened.enter_context(SKB.open(path))
            for one in dict.fromkeys(record.id for record in over.records[0]) if over else skb.nodes.ids:
                number, other = skb.nodes.ids.find(one), new.nodes.ids.find(one)
                if min(number, other) >= 0:
                    _tell_values(skb, number, new, other, changes)
    with suppress(UsageError), locked(path / LOCK, "another build is under way"):  # which deletes what this one read
        remove_unused(path, made.data)
    return made
