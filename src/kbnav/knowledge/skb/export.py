"""An SKB written as RDF, for any SPARQL engine: the triples that its own SPARQL view holds."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from kbnav.errors import UsageError
from kbnav.knowledge.skb.rdf import triples
from kbnav.knowledge.skb.schema import Progress, no_progress
from kbnav.knowledge.skb.store import SKB

ENDINGS = (".ttl", ".ttl.gz")
_CHUNK = 1 << 20


class Written(NamedTuple):
    """What a file of RDF has."""

    nodes: int
    edges: int
    bytes: int


def export_rdf(skb: SKB, out: Path, *, progress: Progress = no_progress) -> Written:
    """Write the nodes with their types, names, other names and short fields, and all edges, as Turtle.

    The file is there once it is whole. Raises UsageError where its name ends in neither of ``ENDINGS``, or it cannot be
    written.
    """
    if not out.name.endswith(ENDINGS):
        raise UsageError(f"{out}: the file is Turtle: its name ends in {' or '.join(ENDINGS)}")
    part = out.with_name(f"{out.name}.part")
    source = triples(skb.nodes, skb.graph, skb.type_names, skb.relation_names, progress)
    try:
        with _opened(part, packed=out.suffix == ".gz") as file:
            file.writelines(iter(partial(source.read, _CHUNK), b""))
        part.replace(out)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"{out} cannot be written: {error}") from error
    return Written(len(skb.nodes), skb.graph.edges, out.stat().st_size)


@contextmanager
def _opened(path: Path, *, packed: bool) -> Iterator[IO[bytes]]:
    if packed:
        with gzip.open(path, "wb", compresslevel=6) as file:
            yield file  # type: ignore[misc]  # all that is asked of a binary file
    else:
        with path.open("wb") as plain:
            yield plain
