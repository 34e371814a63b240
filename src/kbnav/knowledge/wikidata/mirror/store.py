"""A mirror on disk: one folder with ``meta.json``, the RDF store and the index of names."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from pyoxigraph import Store

from kbnav.errors import DataError
from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.runs.journal import read_document

FORMAT = 6
META = "meta.json"
TRIPLES = "triples"
NAMES = "names.sqlite"


class Source(BaseModel):
    """A file that a mirror was built from."""

    model_config = ConfigDict(frozen=True)

    name: str
    bytes: int
    sha256: str
    triples: int
    """Triples read from it, before those that another source has too are merged."""


class MirrorInfo(BaseModel):
    """What ``meta.json`` says of a mirror."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    built: datetime
    triples: int
    entities: int
    """Entities with a name: those that a search can find."""
    names: int
    """Labels and aliases, in all languages."""
    sources: tuple[Source, ...]
    concept_base: str = WIKIDATA
    """What the IRIs of its entities begin with."""
    newest: str = ""
    """When the entity was changed that was changed last (schema:dateModified), which is when the copy was taken; empty
    where the sources do not say it."""


def read_info(path: Path) -> MirrorInfo:
    """What is known of the mirror in a folder. Raises UsageError where there is none, DataError where it is damaged."""
    missing = f"no mirror in {path}: build one with `kbnav mirror build`"
    info: MirrorInfo = read_document(path / META, MirrorInfo, missing, FORMAT)
    if info.format != FORMAT:
        raise DataError(f"{path}: a mirror of format {info.format}, and this version reads {FORMAT}: build it again")
    for part in (TRIPLES, NAMES):
        if not (path / part).exists():
            raise DataError(f"{path}: {part} is missing: build the mirror again")
    return info


def open_store(path: Path) -> Store:
    """The RDF store of a mirror, to read from; several processes may. Raises DataError where it is damaged."""
    try:
        return Store.read_only(str(path / TRIPLES))
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(f"{path / TRIPLES}: not a readable store: {error}") from error
