"""From the name a person gives to a knowledge base that answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.errors import UsageError
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.service.exchange import Request
from kbnav.settings import Endpoints, Settings, SparqlSource
from kbnav.suggest import did_you_mean

if TYPE_CHECKING:
    from kbnav.knowledge.endpoint.kb import EndpointKB
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.knowledge.wikidata.kb import WikidataKB

BY_NAME = ("mini", "demo", "wikidata")
"""Knowledge bases that have a name: the two that are bundled, and live Wikidata."""


@contextmanager
def open_kb(settings: Settings) -> Iterator[KnowledgeBase]:
    """Open ``settings.kb`` and close it afterwards.

    ``wikidata`` is live; ``mini`` is the bundled mirror, ``demo`` the bundled SKB; a folder is an SKB's or a mirror's;
    a name of ``settings.sparql`` is that endpoint, and a URL that of a Wikibase, a served mirror or a SPARQL endpoint.
    Mirrors given as folders are served on the loopback address meanwhile, so that the client is the same everywhere.
    Raises UsageError for anything else and CredentialsError for a live use without a contact.
    """
    from kbnav.knowledge.wikidata.kb import WikidataKB

    name = settings.kb
    if name == "wikidata":
        with closing(WikidataKB(settings)) as kb:
            yield kb
    elif name in settings.sparql:
        with closing(open_endpoint(settings, name, settings.sparql[name])) as kb:
            yield kb
    elif name.startswith(("http://", "https://")):
        with closing(_at_url(settings, name)) as kb:
            yield kb
    elif name == "demo" or is_skb(Path(name)):
        with closing(_skb(settings)) as kb:
            yield kb
    else:
        with _served(settings) as kb:
            yield kb


def _at_url(settings: Settings, url: str) -> WikidataKB | EndpointKB:
    """What is at a URL: a site with Wikidata's paths, or else a SPARQL endpoint.

    One request tells. A site that says it is a mirror is known to be a part of Wikidata only.
    """
    from kbnav.knowledge.wikidata.kb import WikidataKB, endpoints_of, open_http
    from kbnav.knowledge.wikidata.replies import siteinfo

    wikibase = _at(settings, endpoints_of(url.rstrip("/").removesuffix("/sparql")))
    http = open_http(wikibase)
    parameters = {"action": "query", "meta": "siteinfo", "format": "json"}
    general = http.fetch(Request("api", wikibase.endpoints.api, parameters), siteinfo)
    if general is None:
        http.close()
        return open_endpoint(settings, url, SparqlSource(url=url))
    mirrored = "mirror" in str(general.get("generator", ""))
    return WikidataKB(wikibase, http=http, about={"mirror": {"built": general.get("time")}} if mirrored else None)


def open_endpoint(settings: Settings, name: str, source: SparqlSource) -> EndpointKB:
    """A SPARQL endpoint. Nothing is asked of it yet.

    Raises UsageError for an address that is none or holds a password, CredentialsError where the contact, or a variable
    that is to hold a credential, is missing.
    """
    from kbnav.knowledge.endpoint.access import authorization, checked_url
    from kbnav.knowledge.endpoint.kb import Address, EndpointKB
    from kbnav.knowledge.wikidata.kb import open_http

    url = checked_url(source.url)
    http = open_http(settings, url=url, authorization=authorization(source))
    services = (*settings.services, *source.services)
    address = Address(url, name, source.graph, source.prefixes, source.labels, services, source.query_page)
    return EndpointKB(address, http)


def is_skb(folder: Path) -> bool:
    """Whether a folder is an SKB's: it is described by the same file as a mirror's, but has no names of a mirror."""
    from kbnav.knowledge.skb.schema import META
    from kbnav.knowledge.wikidata.mirror.store import NAMES

    return (folder / META).is_file() and not (folder / NAMES).exists()


def _skb(settings: Settings) -> SkbKB:
    from kbnav import encoders
    from kbnav.knowledge.bundled import bundled_skb
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.knowledge.skb.schema import read_meta
    from kbnav.knowledge.skb.store import SKB

    folder = bundled_skb(settings.home) if settings.kb == "demo" else Path(settings.kb)
    name, key = read_meta(folder).encoder, settings.api_key.get_secret_value()
    served = name.startswith("openai:")  # any other encoder is found without settings
    encoder = encoders.load(name, base_url=settings.base_url, api_key=key) if served else None
    return SkbKB(SKB.open(folder, encoder), query_timeout=settings.limits.query_timeout)


@contextmanager
def _served(settings: Settings) -> Iterator[KnowledgeBase]:
    """A mirror's folder, served meanwhile."""
    from kbnav.knowledge.bundled import bundled_mirror
    from kbnav.knowledge.wikidata.kb import WikidataKB
    from kbnav.knowledge.wikidata.mirror.server import MirrorServer
    from kbnav.knowledge.wikidata.mirror.store import META

    name = settings.kb
    folder = bundled_mirror(settings.home) if name == "mini" else Path(name)
    if not folder.is_dir():
        guess = did_you_mean(name, (*BY_NAME, *settings.sparql))
        named = f", {', '.join(settings.sparql)}" if settings.sparql else ""
        raise UsageError(
            f"no knowledge base {name!r}{guess}: give wikidata, mini, demo{named}, the folder of an SKB or a mirror, "
            "or a URL"
        )
    if not (folder / META).is_file():
        raise UsageError(
            f"{name} is a folder, but neither an SKB nor a mirror: the {META} that either has is not in it; "
            "`kbnav skb build` and `kbnav mirror build` make them"
        )
    with MirrorServer(folder, query_timeout=settings.limits.query_timeout) as server:
        about = {"mirror": server.info.model_dump(mode="json")}
        with closing(WikidataKB(_at(settings, server.endpoints), about=about)) as kb:
            yield kb


def _at(settings: Settings, endpoints: Endpoints) -> Settings:
    """The same settings on other endpoints; pages for people stay Wikidata's, and the vector service as it was set."""
    own = settings.endpoints
    kept = {"query_page": own.query_page, "entity_page": own.entity_page, "vector": own.vector}
    return settings.model_copy(update={"endpoints": endpoints.model_copy(update=kept)})
