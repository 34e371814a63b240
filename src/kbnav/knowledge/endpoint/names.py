"""How the things of an endpoint are called: prefixed names where a prefix is known, IRIs between < and > elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from kbnav.answers.tables import short_name
from kbnav.errors import UnknownId
from kbnav.knowledge.sparql.vocabulary import STANDARD_PREFIXES

_WIKIBASE = "http://www.wikidata.org/"
_BLAZEGRAPH = "http://www.bigdata.com/"
COMMON: Mapping[str, str] = MappingProxyType(
    {
        **{
            prefix: namespace
            for prefix, namespace in STANDARD_PREFIXES.items()
            if not namespace.startswith((_WIKIBASE, _BLAZEGRAPH)) and prefix != "mwapi"
        },
        "dcterms": "http://purl.org/dc/terms/",
        "dcat": "http://www.w3.org/ns/dcat#",
        "void": "http://rdfs.org/ns/void#",
        "sh": "http://www.w3.org/ns/shacl#",
        "vann": "http://purl.org/vocab/vann/",
        "wgs": "http://www.w3.org/2003/01/geo/wgs84_pos#",
        "dbr": "http://dbpedia.org/resource/",
        "dbo": "http://dbpedia.org/ontology/",
        "dbp": "http://dbpedia.org/property/",
        "up": "http://purl.uniprot.org/core/",
        "obo": "http://purl.obolibrary.org/obo/",
    }
)
"""Prefixes that every endpoint's queries may use without declaring them, unless the endpoint's own say otherwise."""
LABELS = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
    "http://purl.org/dc/terms/title",
)
"""Predicates of labels, the best first."""
ALIASES = ("http://www.w3.org/2004/02/skos/core#altLabel", "http://schema.org/alternateName")
DESCRIPTIONS = (
    "http://www.w3.org/2000/01/rdf-schema#comment",
    "http://www.w3.org/2004/02/skos/core#definition",
    "http://schema.org/description",
    "http://purl.org/dc/terms/description",
    "http://purl.org/dc/elements/1.1/description",
    "http://dbpedia.org/ontology/abstract",
)
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
SUBCLASS = "http://www.w3.org/2000/01/rdf-schema#subClassOf"
_IRI = re.compile(r"<?([A-Za-z][A-Za-z0-9+.-]*:(?://|[^\s<>/])[^\s<>\"{}|\\^`]*)>?")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,30}")
_PARTS = re.compile(r"[^A-Za-z0-9]+")
_ESCAPE = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")
_VAGUE = frozenset(
    {"ontology", "resource", "vocab", "ns", "schema", "id", "data", "core", "rdf", "owl", "www", "instance"}
)


class Names:
    """Prefixes of one endpoint: its own go before those that are common."""

    def __init__(self, own: Mapping[str, str] = MappingProxyType({})) -> None:
        self.own = dict(own)
        taken = set(self.own.values())
        rest = {name: space for name, space in COMMON.items() if name not in self.own and space not in taken}
        self.prefixes: dict[str, str] = {**self.own, **rest}

    def short(self, iri: str) -> str:
        """``ex:Foo``, or ``<IRI>``."""
        return short_name(iri, self.prefixes)

    def iri(self, text: str) -> str:
        """The IRI that a model means: a prefixed name, an IRI with or without brackets. Raises UnknownId."""
        given = text.strip().strip("`")
        prefix, colon, local = given.partition(":")
        if colon and prefix in self.prefixes and not given.startswith("<"):
            return self.prefixes[prefix] + _ESCAPE.sub(r"\1", local)
        found = _IRI.fullmatch(given)
        known = ", ".join(f"{name}:" for name in self.own) or "none"
        if not found or (not given.startswith("<") and "//" not in given and not given.lower().startswith("urn:")):
            hint = (
                f"the prefix {prefix}: is not known here (this endpoint's are: {known})" if colon else "it is neither"
            )
            raise UnknownId(
                f"{given[:80]!r} is no id: ids are prefixed names or IRIs between < and >, and {hint}. "
                "Search for the name to find its id, and give that"
            )
        return found[1]

    def with_namespaces(self, published: Mapping[str, str], iris: Iterable[str]) -> Names:
        """With prefixes that the data publishes, and made-up ones for the namespaces of some IRIs that have none."""
        own = dict(self.own)
        for prefix, namespace in published.items():
            if _PREFIX.fullmatch(prefix) and prefix not in own and namespace not in own.values():
                own[prefix] = namespace
        for namespace in _namespaces(iris):
            if namespace in own.values() or namespace in COMMON.values():
                continue
            prefix = _made_up(namespace, {*own, *COMMON})
            if prefix:
                own[prefix] = namespace
        return Names(own)


def namespace_of(iri: str) -> str:
    """An IRI up to its last ``#``, ``/`` or ``:``."""
    at = max(iri.rfind(mark) for mark in "#/:")
    return iri[: at + 1]


def values(iris: Iterable[str]) -> str:
    """IRIs as a VALUES clause lists them."""
    return " ".join(f"<{iri}>" for iri in iris)


def is_iri(text: str) -> bool:
    """Whether a text can stand between < and > in a query."""
    return not re.search(r"[\x00-\x20<>\"{}|\\^`]", text) and ":" in text


def _namespaces(iris: Iterable[str]) -> Sequence[str]:
    spaces = (namespace_of(iri) for iri in iris)
    return list(dict.fromkeys(space for space in spaces if space.startswith(("http://", "https://", "urn:"))))


def _made_up(namespace: str, taken: set[str]) -> str:
    """A prefix of the namespace's own last words: ``http://ld.company.org/prod-vocab/`` gives ``prodvocab``."""
    host, _, path = namespace.split("://", 1)[-1].partition("/")
    last = [part for part in path.lower().rstrip("/#").split("/") if part]
    joined = ["".join(_PARTS.split(last[-1]))] if last else []
    words = [part for part in _PARTS.split(path.lower()) if part and not part.isdigit()]
    domain = [part for part in host.lower().split(".")[:-1] if part != "www"]
    vague = [one for one in (*joined, *reversed(words)) if one in _VAGUE]
    telling = [one for one in (*joined, *reversed(words)) if one not in _VAGUE]
    numbered = [f"ns{number}" for number in range(1, 100)]
    candidates = [*telling, *reversed(domain), *vague, *numbered]
    return next((one for one in candidates if _PREFIX.fullmatch(one) and one not in taken), "")
