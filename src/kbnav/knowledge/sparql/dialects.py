"""What one SPARQL engine understands: its dialect, as data. ``rewriting`` turns a query into it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from kbnav.errors import UsageError
from kbnav.settings.plugins import did_you_mean

TextIndex = Literal["", "virtuoso", "qlever"]
"""The form in which an engine's text index is asked; empty: CONTAINS, which reads every label."""

GEOF_WIKIDATA = "http://www.opengis.net/def/geosparql/function/"
GEOF_STANDARD = "http://www.opengis.net/def/function/geosparql/"
_WIKIBASE = "http://wikiba.se/ontology#"


@dataclass(frozen=True)
class Dialect:
    """What an engine has beyond SPARQL 1.1, or lacks; plain data, of which ``replace`` makes an endpoint's."""

    name: str
    engine: str
    """The engine's name for people."""
    blazegraph: bool = False
    """Whether it runs Blazegraph's extensions: label service, named subqueries, hints, geographical services."""
    lateral: bool = False
    """Whether it has LATERAL (SPARQL 1.2 community proposal SEP-0006)."""
    federation: bool = True
    """Whether it asks other endpoints by SERVICE; which of them may be asked is not decided here."""
    narrow_integers: bool = True
    """Whether it casts by ``xsd:int``, ``xsd:long`` and the like, which the standard does not have (section 17.5); else
    ``xsd:integer`` is taken, which gives the same number."""
    geo: str = ""
    """Namespace of its functions for points, if any: ``distance`` in kilometres, ``latitude``, ``longitude``."""
    functions: frozenset[str] = frozenset()
    """IRIs of Wikidata's own functions that it has."""
    days: str = ""
    """IRI of a function that gives days for a duration, through which differences of dates go, as on Wikidata's query
    service; empty: dates are those of the standard."""
    closed: bool = False
    """Whether every other function with an IRI is known not to be there, so that it is refused before it is sent."""
    text: TextIndex = ""


_WDQS = Dialect(
    "wdqs",
    "Blazegraph, as Wikidata's query service has it",
    blazegraph=True,
    geo=GEOF_WIKIDATA,
    functions=frozenset({f"{_WIKIBASE}isSomeValue", f"{_WIKIBASE}decodeUri"}),
)
AUTO = "auto"
"""What the settings say where the dialect is to be found out."""

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        one.name: one
        for one in (
            _WDQS,
            # What `kbnav sparql serve` serves: it rewrites what is written for Wikidata's service by itself.
            replace(_WDQS, name="kbnav", engine="Oxigraph, as kbnav serves it"),
            # docs.qlever.dev, pages on text search and GeoSPARQL, 2026: kilometres where no unit is given.
            Dialect("qlever", "QLever", geo=GEOF_STANDARD, text="qlever"),
            Dialect("virtuoso", "Virtuoso", text="virtuoso"),
            Dialect("oxigraph", "Oxigraph", lateral=True, narrow_integers=False),
            Dialect("sparql11", "SPARQL 1.1", narrow_integers=False),
        )
    }
)


def dialect_named(name: str) -> Dialect:
    """The dialect of a name, as the settings have it. Raises UsageError."""
    if name not in DIALECTS:
        guess = did_you_mean(name, [*DIALECTS, AUTO])
        raise UsageError(f"no dialect {name!r}{guess}: give {AUTO}, {', '.join(DIALECTS)}")
    return DIALECTS[name]


def text_search(dialect: Dialect, subject: str, predicates: Sequence[str], label: str, phrase: str) -> str:
    """A group pattern that binds ``subject`` and ``label`` to what is named by words of a phrase, by the text index.

    Every word has to begin a word of the label, in any order and case. Put a LIMIT behind it.

    ``subject`` and ``label`` are variables; ``predicates`` IRIs or prefixed names. Only letters and digits of the
    ``phrase`` go into the query. Returns SPARQL without braces around it; empty where it has no letter or digit.
    """
    words = re.findall(r"\w+", phrase.lower())
    match words and dialect.text:
        case "virtuoso":
            # Before it there has to be a pattern of one predicate; fewer than four letters before `*` are an error.
            parts = (f"'{word}*'" if len(word) > 3 else f"'{word}'" for word in words)
            found = f'{label} <bif:contains> "{" AND ".join(parts)}" .'
            return " UNION ".join(f"{{ {subject} {one} {label} . {found} }}" for one in predicates)
        case "qlever":
            contains = "<http://qlever.cs.uni-freiburg.de/builtin-functions/contains-"
            text = f"{label}_text"
            wanted = " ".join(f"{word}*" for word in words)
            named = f"{subject} {'|'.join(predicates)} {label} ."
            return f'{named} {text} {contains}entity> {label} . {text} {contains}word> "{wanted}" .'
    return ""
