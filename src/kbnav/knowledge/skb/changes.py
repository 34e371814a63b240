"""An update of some nodes of an SKB that stay where they are: what does not change is taken over file by file.

Files that stay are linked, not copied, and keep their checksums. A search in texts counts the words of replaced ones as
still there when it weighs how rare a word is; the next build forgets them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.knowledge.skb.build import POSITIONS, Job, Options
from kbnav.knowledge.skb.files import link, write_strings
from kbnav.knowledge.skb.graph import Graph
from kbnav.knowledge.skb.nodes import StoredDocuments, aliases
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import NAMES, TEXT, TRIPLES, UNNAMED, VECTORS, Losses, NodeRecord, NodeText, Source
from kbnav.knowledge.skb.store import GRAPH, SKB

_MOST = 0.1
"""Of all nodes; where more change, a build is no slower."""


def job_of(skb: SKB, source: Source, options: Options) -> Callable[..., Job]:
    """What builds an SKB with the records of ``source`` over it: file by file where that can be, else all anew.

    It can be where some nodes get new documents or names and edges come or go, but no node comes, goes or changes its
    type, and no index holds relations.
    """
    has = {name.partition("/")[0] for name in skb.meta.files}
    wanted = {TEXT: options.text, TRIPLES: options.sparql, VECTORS: options.vectors}
    if options.relations or any((part in has) != one for part, one in wanted.items()):
        return Job
    losses = Losses()
    changed = {skb.nodes.ids.find(record.id): record for record in source.nodes(losses)}
    edges = next(iter(source.edges(Losses())), None) is not None
    stay = (
        number >= 0
        and not record.deleted
        and record.type in ("", skb.type(number))
        and bool(record.name) == bool(skb.nodes.names[number])
        for number, record in changed.items()
    )
    if not (changed or edges) or len(changed) > _MOST * skb.meta.nodes or not all(stay):
        return Job
    return partial(_Changes, skb=skb, changed=dict(sorted(changed.items())), edges=edges, losses=losses)


class _Changes(Job):
    def __init__(self, *given: Any, skb: SKB, changed: Mapping[int, NodeRecord], edges: bool, losses: Losses) -> None:
        super().__init__(*given)
        self._skb, self._changed, self._edges, self._losses = skb, changed, edges, losses
        self._data = skb.store.data  # type: ignore[union-attr]  # only a folder is updated

    def _linked(self, name: str) -> Path:
        """A folder of the build with all files of the old one."""
        folder = self._folder(name)
        for path in (self._data / name).iterdir():
            link(path, folder / path.name)
        return folder

    def _nodes(self) -> dict[str, Any]:
        old, names = self._skb, {number: record.name for number, record in self._changed.items()}
        folder = self._linked("nodes")
        if any(old.nodes.names[number] != name for number, name in names.items()):
            for path in folder.glob("names-*"):
                path.unlink()
            write_strings(folder, "names", (names.get(n, name) for n, name in enumerate(old.nodes.names)))
        fields = {number: record.fields for number, record in self._changed.items()}
        StoredDocuments(self._data / "documents").write_changed(self._folder("documents"), fields)
        np.save(self._work / POSITIONS, np.arange(len(old.nodes), dtype=np.int32))
        kept = {UNNAMED: old.meta.dropped[UNNAMED].model_dump()} if UNNAMED in old.meta.dropped else {}
        return {"types": [(kind.name, kind.count) for kind in old.meta.types], "dropped": self._losses.report() | kept}

    def _graph(self) -> dict[str, Any]:
        if self._edges:
            return super()._graph()
        self._linked(GRAPH)
        meta = self._skb.meta
        relations = [(relation.name, relation.count) for relation in meta.relations]
        return {"relations": relations, "tuples": [one.model_dump() for one in meta.tuples], "dropped": {}}

    def _triples(self) -> dict[str, Any]:
        from kbnav.knowledge.skb import rdf

        relations = [relation for relation, _ in self._state.done[GRAPH]["relations"]]
        if relations != list(self._skb.relation_names):  # their names as IRIs may be others
            return super()._triples()
        come, gone = self._edges_changed(len(relations)) if self._edges else ([], [])
        nodes = self._open_nodes()
        about = (pair for number in self._changed for pair in nodes.named(range(number, number + 1)))
        rdf.change(self._data / TRIPLES, self._folder(TRIPLES), self._skb, about, come, gone)
        return {}

    def _edges_changed(self, relations: int) -> Iterator[list[tuple[int, int, int]]]:
        """The edges that come, then those that go: source, relation and target."""
        nodes, keys = self._skb.graph.nodes, []
        for graph in (Graph(self._work / GRAPH, relations), self._skb.graph):
            _, targets, kinds = graph.arrays("out")
            keys.append((np.repeat(np.arange(nodes), graph.degrees("out")) * relations + kinds) * nodes + targets)
        for some, others in (keys, keys[::-1]):
            only = np.setdiff1d(some, others, assume_unique=True)
            yield [(key // nodes // relations, key // nodes % relations, key % nodes) for key in only.tolist()]

    @cached_property
    def _new_texts(self) -> Sequence[NodeText]:
        with self._texts(relations=False).opened() as skb:
            return [text for number in self._changed for text in indexed_texts(skb, among=range(number, number + 1))]

    def _text(self, part: str, *, relations: bool) -> dict[str, Any]:  # noqa: ARG002
        from kbnav.knowledge.skb import text

        text.change(self._new_texts, self._data / part, self._folder(part))
        old = [one for number in self._changed for one in indexed_texts(self._skb, among=range(number, number + 1))]
        words = (sum(len(one.document.split()) for one in texts) for texts in (self._new_texts, old))
        tokens = self._skb.meta.tokens
        return {"tokens": tokens if tokens is None else tokens + next(words) - next(words)}

    def _names(self) -> dict[str, Any]:
        nodes, fields = self._skb.nodes, self._source.alias_fields
        for number, record in self._changed.items():
            if (record.name, aliases(record.fields, fields)) != (nodes.names[number], nodes.aliases(number)):
                return super()._names()
        self._linked(NAMES)
        return {}

    def _vectors(self, part: str, *, relations: bool) -> dict[str, Any]:  # noqa: ARG002
        from kbnav.knowledge.skb import vectors

        folder = self._folder(part)
        shutil.copytree(self._data / part, folder, dirs_exist_ok=True)  # they are written to
        vectors.change(self._new_texts, folder, encoder=self._options.encoder, type_start=self._type_start)
        return {}
