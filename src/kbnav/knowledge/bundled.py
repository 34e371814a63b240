"""The small mirror and the demo SKB that come with the package, each built on its first use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from kbnav.errors import UsageError
from kbnav.knowledge.work_folder import work_folder

MIRROR = "mini.ttl"
NODES, EDGES = "demo/nodes.jsonl", "demo/edges.tsv"


def bundled_mirror(home: Path) -> Path:
    """The folder of the bundled mirror. Raises UsageError where ``home`` cannot be written to."""
    from kbnav.knowledge.wikidata.mirror.store import FORMAT, META

    def make(sources: Sequence[Path], out: Path) -> None:
        from kbnav.knowledge.wikidata.mirror.build import build_mirror

        build_mirror(sources, out)

    return _made_once(home / "mirrors", f"mini-{FORMAT}", [MIRROR], make, META)


def bundled_skb(home: Path) -> Path:
    """The folder of the demo SKB. Raises UsageError where ``home`` cannot be written to.

    Its vectors are those of ``lsa``, so that it is the same everywhere.
    """
    from kbnav.knowledge.skb.schema import FORMAT, META

    def make(sources: Sequence[Path], out: Path) -> None:
        from kbnav.knowledge.skb.build import build
        from kbnav.knowledge.skb.importers.tables import TableSource

        nodes, edges = sources
        build(TableSource([nodes], [edges]), out, name="demo")

    return _made_once(home / "skbs", f"demo-{FORMAT}", [NODES, EDGES], make, META)


def _made_once(
    folder: Path, name: str, data: Sequence[str], make: Callable[[Sequence[Path], Path], None], last: str
) -> Path:
    """What is made of files of the package, in a folder for each content they ever had; ``last`` is there when it is.

    Processes that need it at the same time may each make it; the first to finish wins.
    """
    sources = [files("kbnav").joinpath("data", *one.split("/")) for one in data]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    path = folder / f"{name}-{digest}"
    if (path / last).is_file():
        return path
    try:
        with work_folder(folder, name) as work:
            made, copies = work / "made", []
            for source in sources:
                copies.append(work / source.name)
                copies[-1].write_bytes(source.read_bytes())
            make(copies, made)
            try:
                made.rename(path)
            except OSError:
                if not (path / last).is_file():
                    raise
    except OSError as error:
        raise UsageError(f"cannot build the bundled {name.partition('-')[0]} in {folder}: {error}") from error
    return path
