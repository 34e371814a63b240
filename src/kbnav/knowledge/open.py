"""From the name a person gives to a knowledge base that answers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.replies import host_of
from kbnav.knowledge.sparql.dialects import AUTO, dialect_named
from kbnav.runs.journal import work_folder
from kbnav.settings.model import BUNDLED, LIVE, Endpoints, Settings, SparqlSource, kb_names
from kbnav.settings.plugins import did_you_mean

if TYPE_CHECKING:
    from kbnav.knowledge.endpoint.kb import EndpointKB
    from kbnav.knowledge.http import HttpClient
    from kbnav.knowledge.several import SeveralKB
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.knowledge.skb.store import SKB
    from kbnav.knowledge.wikidata.kb import WikidataKB

_LOG = logging.getLogger("kbnav.knowledge")


def bundled_mirror(home: Path) -> Path:
    """The folder of the bundled mirror. Raises UsageError where ``home`` cannot be written to."""
    from kbnav.knowledge.wikidata.mirror.mirror import FORMAT, META

    def make(sources: Sequence[Path], out: Path) -> None:
        from kbnav.knowledge.wikidata.mirror.build import build_mirror

        build_mirror(sources, out)

    return _built_once(home / "mirrors", f"mini-{FORMAT}", ["mini.ttl"], make, META)


def bundled_skb(home: Path) -> Path:
    """The folder of the demo SKB, its vectors by ``lsa``. Raises UsageError where ``home`` cannot be written to."""
    from kbnav.knowledge.skb.schema import FORMAT, META

    def make(sources: Sequence[Path], out: Path) -> None:
        from kbnav.knowledge.skb.build import build
        from kbnav.knowledge.skb.importers.tables import TableSource

        nodes, edges = sources
        build(TableSource([nodes], [edges]), out, name="demo")

    return _built_once(home / "skbs", f"demo-{FORMAT}", ["demo/nodes.jsonl", "demo/edges.tsv"], make, META)


def _built_once(
    folder: Path, name: str, data: Sequence[str], make: Callable[[Sequence[Path], Path], None], last: str
) -> Path:
    """What is made of files of the package, in a folder for each content; of several makers the first wins."""
    sources = [files("kbnav").joinpath("data", *one.split("/")) for one in data]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    path = folder / f"{name}-{digest}"
    if (path / last).is_file():
        return path
    try:
        with work_folder(folder, name) as work:
            copies = [work / source.name for source in sources]
            for copy, source in zip(copies, sources, strict=True):
                copy.write_bytes(source.read_bytes())
            make(copies, work / "made")
            try:
                (work / "made").rename(path)
            except OSError:
                if not (path / last).is_file():
                    raise
    except OSError as error:
        raise UsageError(f"cannot build the bundled {name.partition('-')[0]} in {folder}: {error}") from error
    return path


QLEVER = "https://qlever.dev/api/wikidata"
QLEVER_PAGE = "https://qlever.dev/wikidata/?query="


META, NAMES = "meta.json", "names.sqlite"
"""What describes an SKB or a mirror, and what only a mirror has."""
QUERIES = 4
"""Queries that run at once on a store of this machine, unless more are wanted."""


def open_kb(settings: Settings, *, queries: int = QUERIES) -> AbstractContextManager[KnowledgeBase]:
    """Open ``settings.kb`` and close it afterwards; ``queries`` run at once where they run on this machine.

    ``wikidata`` is live, ``wikidata-qlever`` too, with the queries sent to QLever's public service; ``mini`` is the
    bundled mirror, ``demo`` the bundled SKB; a folder is an SKB's or a mirror's, an address of an object store an
    SKB's; a name of ``settings.sparql`` is that endpoint, and a URL that of a Wikibase, a served mirror or a SPARQL
    endpoint; several names with `` + `` between, all of them together.
    Raises UsageError for anything else and CredentialsError for a live use without a contact.
    """
    name = settings.kb
    for dialect in {settings.endpoints.dialect, *(source.dialect for source in settings.sparql.values())} - {AUTO}:
        dialect_named(dialect)
    if len(names := kb_names(name)) > 1:
        return _together(settings, names, queries)
    if name in LIVE:
        if name == "wikidata-qlever":  # one graph, and no time limit of 60 s
            changed = {"sparql": QLEVER, "query_page": QLEVER_PAGE, "dialect": "qlever"}
            settings = settings.model_copy(update={"endpoints": settings.endpoints.model_copy(update=changed)})
        return closing(_live(settings))
    if name in settings.sparql:
        return closing(open_endpoint(settings, name, settings.sparql[name]))
    if _is_url(name):
        return closing(_at_url(settings, name))
    if name == "mini" or ((Path(name) / META).is_file() and (Path(name) / NAMES).exists()):
        return _mirror(settings, queries)

    from kbnav.knowledge.skb.schema import folders_beside, is_lance

    if name == "demo" or is_lance(name) or is_skb(Path(name)):
        place = str(bundled_skb(settings.home)) if name == "demo" else name
        return closing(_open_skb(settings, place, queries))
    if Path(name).is_dir():
        raise UsageError(
            f"{name} is a folder, but neither an SKB nor a mirror: the {META} that either has is not in it; "
            "`kbnav skb build` and `kbnav mirror build` make them"
        )
    if Path(name).is_file():
        raise UsageError(f"{name} is a file: `kbnav skb build` makes an SKB of it; `kbnav sparql serve` serves RDF")
    guess = did_you_mean(name, (*BUNDLED, *LIVE, *settings.sparql, *folders_beside(Path(name))))
    own = "".join(f", {one}" for one in settings.sparql)
    known = f": give wikidata, mini, demo{own}, the folder of an SKB or a mirror, an s3:// address, or a URL"
    raise UsageError(f"no knowledge base {name!r}{guess or known}")


def _is_url(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def is_skb(folder: Path) -> bool:
    """Whether a folder is an SKB's."""
    return (folder / META).is_file() and not (folder / NAMES).exists()


def is_elsewhere(settings: Settings) -> bool:
    """Whether ``settings.kb``, or one of several, is not on this machine's disk."""
    return any(name in settings.sparql or name in LIVE or _is_url(name) for name in kb_names(settings.kb))


@contextmanager
def _together(settings: Settings, names: Sequence[str], queries: int) -> Iterator[SeveralKB]:
    """Several knowledge bases, each allowed to name the addresses of the others by SERVICE."""
    from kbnav.knowledge.several import SeveralKB

    short = short_names(names)
    addresses = {name: url for name in names if (url := _address(settings, name))}
    with ExitStack() as stack:
        parts = {}
        for name in names:
            others = [url for other, url in addresses.items() if other != name]
            changed = {"kb": name, "services": (*settings.services, *others)}
            parts[short[name]] = stack.enter_context(open_kb(settings.model_copy(update=changed), queries=queries))
        yield SeveralKB(parts, {short[name]: url for name, url in addresses.items()})


def short_names(names: Sequence[str]) -> dict[str, str]:
    """What knowledge bases are called among others: a folder's own name, a URL's host; whole where two are alike."""
    short = {name: host_of(name) if _is_url(name) else Path(name).name or name for name in names}
    alike = list(short.values())
    return {name: one if alike.count(one) == 1 else name for name, one in short.items()}


def _address(settings: Settings, name: str) -> str:
    """Where others may ask a knowledge base by SERVICE; empty for what is on this machine and not served."""
    if name in LIVE:
        return QLEVER if name == "wikidata-qlever" else settings.endpoints.sparql
    if name in settings.sparql:
        return settings.sparql[name].url
    return name if _is_url(name) else ""


def _at_url(settings: Settings, url: str) -> WikidataKB | EndpointKB:
    """What is at a URL: a Wikibase with the usual paths, or else a SPARQL endpoint. One request tells."""
    from kbnav.knowledge.endpoint.kb import checked_url
    from kbnav.knowledge.http import open_http
    from kbnav.knowledge.wikidata.kb import endpoints_of
    from kbnav.knowledge.wikidata.site import concept_base, siteinfo

    checked_url(url)
    wikibase = _at(settings, endpoints_of(url.rstrip("/").removesuffix("/sparql")))
    http = open_http(wikibase)
    info = siteinfo(http, wikibase.endpoints.api)
    if info is None or not concept_base(info):
        http.close()
        return open_endpoint(settings, url, SparqlSource(url=url))
    service = str(info["general"].get("wikibase-sparql") or "")
    if service:  # the one that it names, in place of the usual path
        endpoints = wikibase.endpoints.model_copy(update={"sparql": service})
        wikibase = wikibase.model_copy(update={"endpoints": endpoints})
    return _wikibase(wikibase, http, info)


def _live(settings: Settings) -> WikidataKB:
    from kbnav.knowledge.http import open_http
    from kbnav.knowledge.wikidata.kb import WikidataKB
    from kbnav.knowledge.wikidata.site import siteinfo

    if settings.endpoints.api == Endpoints().api:
        return WikidataKB.by_http(settings)
    http = open_http(settings)
    info = siteinfo(http, settings.endpoints.api)
    if info is None:
        raise UsageError(f"endpoints.api: {settings.endpoints.api} is not the api.php of a Wikibase")
    return _wikibase(settings, http, info)


def _wikibase(settings: Settings, http: HttpClient, info: Mapping[str, Any]) -> WikidataKB:
    """A Wikibase; one that says it is a mirror is known to be a part only."""
    from kbnav.knowledge.wikidata.kb import WikidataKB
    from kbnav.knowledge.wikidata.site import learn_by_http

    general = info["general"]
    mirrored = "mirror" in str(general.get("generator", ""))
    about = {"mirror": {"built": general.get("time")}} if mirrored else None
    return WikidataKB.by_http(settings, http=http, site=learn_by_http(settings, http, info), about=about)


def open_endpoint(settings: Settings, name: str, source: SparqlSource) -> EndpointKB:
    """A SPARQL endpoint, not asked yet. Raises UsageError for its address, CredentialsError for a variable."""
    from kbnav.knowledge.endpoint.kb import EndpointKB, authorization, checked_url
    from kbnav.knowledge.http import open_http
    from kbnav.knowledge.probing import dialect_at

    url = checked_url(source.url)
    http = open_http(settings, url=url, authorization=authorization(source))
    names = None
    if source.index and not Path(source.index).is_file():
        _LOG.warning("there is no name index: `kbnav sparql index %s --out %s` makes it", name, source.index)
    elif source.index:
        from kbnav.knowledge.endpoint.names import open_names

        names = open_names(Path(source.index))
    return EndpointKB(source, http, partial(dialect_at, url, source.dialect, http), name, names, settings.services)


def open_skb(place: str, home: Path | None = None) -> SKB:
    """An SKB, wherever it is; tables are fetched below ``home``. Raises as ``SKB.open`` and ``lance.open_tables``."""
    from kbnav.knowledge.skb.schema import is_lance
    from kbnav.knowledge.skb.store import SKB

    if not is_lance(place):
        return SKB.open(place)
    from kbnav.knowledge.skb.lance import open_tables

    if home is None:
        raise ValueError(f"{place} is on LanceDB: a home for what is fetched must be given")
    return open_tables(place, home / "skbs" / "fetched")


def _open_skb(settings: Settings, place: str, queries: int = QUERIES) -> SkbKB:
    from kbnav import encoders
    from kbnav.knowledge.skb.kb import SkbKB

    skb = open_skb(place, settings.home)
    name, key = skb.meta.encoder, settings.api_key.get_secret_value()
    try:
        if name.startswith("openai:"):  # any other encoder is found without settings
            skb.encoder = encoders.load(name, base_url=settings.base_url, api_key=key)
    except BaseException:
        skb.close()
        raise
    return SkbKB(skb, query_timeout=settings.limits.query_timeout, workers=queries)


@contextmanager
def _mirror(settings: Settings, queries: int) -> Iterator[KnowledgeBase]:
    from kbnav.knowledge.sparql.vocabulary import WIKIDATA
    from kbnav.knowledge.wikidata.kb import WikidataKB
    from kbnav.knowledge.wikidata.mirror.mirror import LocalApi, LocalQueries, Mirror
    from kbnav.knowledge.wikidata.mirror.pool import QueryLimits
    from kbnav.knowledge.wikidata.site import SITEINFO, WIKIDATA_SITE, learn

    folder = bundled_mirror(settings.home) if settings.kb == "mini" else Path(settings.kb)
    limits = QueryLimits(settings.limits.query_timeout, workers=queries)
    with closing(Mirror(folder, limits)) as mirror:
        endpoints = _at(settings, Endpoints(sparql="", api="")).endpoints
        site = WIKIDATA_SITE
        if mirror.info.concept_base != WIKIDATA:
            info = LocalApi(mirror, site.namespaces).call(**SITEINFO)["query"]
            site = learn(settings, info, LocalQueries(mirror, {}, (), settings.kb).run)
        http = None
        if endpoints.vector:
            from kbnav.knowledge.http import open_http

            http = open_http(settings, url=endpoints.vector)
        kb = WikidataKB(
            endpoints,
            LocalApi(mirror, site.namespaces),
            LocalQueries(mirror, site.vocabulary.prefixes, settings.services, settings.kb),
            http=http,
            site=site,
            about={"mirror": mirror.info.model_dump(mode="json")},
        )
        with closing(kb):
            yield kb


def _at(settings: Settings, endpoints: Endpoints) -> Settings:
    """The same settings on other endpoints; pages for people stay Wikidata's, and the vector service as it was set."""
    own = settings.endpoints
    kept = {"query_page": own.query_page, "entity_page": own.entity_page, "vector": own.vector}
    return settings.model_copy(update={"endpoints": endpoints.model_copy(update=kept)})
