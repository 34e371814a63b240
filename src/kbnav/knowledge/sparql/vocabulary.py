"""What names in queries stand for: prefixes, the ids of a Wikibase's entities, and its ids for what kbnav speaks of."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote

from kbnav.answers.tables import Cell, Term
from kbnav.knowledge.sparql.tokens import Token, tokenize

TABLES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
STANDARD_PREFIXES: Mapping[str, str] = MappingProxyType(TABLES["prefixes"])
"""The prefixes that Wikidata's query service declares by itself."""
SKB_PREFIXES: Mapping[str, str] = MappingProxyType(
    TABLES["skb"] | {name: STANDARD_PREFIXES[name] for name in ("rdf", "rdfs", "skos", "xsd")}
)
"""What queries to an SKB need not declare; see ``kbnav.knowledge.skb.rdf``."""

_IRI = re.compile(r"[^<>\"{}|^`\\\x00-\x20]*")
_LANGUAGE = re.compile(r"[A-Za-z]+(-[A-Za-z0-9]+)*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_APART = re.compile(r"[/#?]")
_ENTITY = re.compile(r"/(?:entity|prop(?:/[a-z-]+)*)/([QPL][1-9][0-9]*(?:-[FS][1-9][0-9]*)?)\Z")


def entity_page(entity_id: str) -> str:
    """The title of an entity's page: ``Q1``, ``Property:P31``, ``Lexeme:L7#F2`` for a form or sense of a lexeme."""
    space = {"P": "Property:", "L": "Lexeme:"}.get(entity_id[:1], "")
    return space + entity_id.replace("-", "#", 1)


def label_from_iri(iri: str) -> str:
    """The last part of an IRI as words: ``hasManager`` as ``has manager``, ``weight_g`` as ``weight g``."""
    local = re.split(r"[/#:]", iri.rstrip("/#"))[-1]
    plain = _CAMEL.sub(" ", re.sub(r"[_\-+.]+", " ", unquote(local)))
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in plain.split())


def text_literal(text: str) -> str:
    """A text as a query writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def written(cell: Cell) -> str:
    """A cell as queries write it: UNDEF for a blank node, and for an IRI, datatype or language that cannot be one."""
    if (
        cell is None
        or cell.type == "bnode"
        or not _IRI.fullmatch(cell.value if cell.type == "uri" else cell.datatype or "")
    ):
        return "UNDEF"
    if cell.type == "uri":
        return f"<{cell.value}>"
    if cell.language and not _LANGUAGE.fullmatch(cell.language):
        return "UNDEF"
    ending = f"@{cell.language}" if cell.language else f"^^<{cell.datatype}>" if cell.datatype else ""
    return text_literal(cell.value) + ending


def add_prefixes(query: str, prefixes: Mapping[str, str] = STANDARD_PREFIXES) -> str:
    """Declare the prefixes that the query uses and does not declare; nothing else of the text changes.

    They go in front of the first line, so that line numbers stay those of the given text. Raises QuerySyntaxError at a
    string that is never closed.
    """
    tokens = tokenize(query)
    declared = declared_prefixes(tokens)
    used = dict.fromkeys(token.text.split(":", 1)[0] for token in tokens if token.kind == "name")
    missing = [name for name in used if name in prefixes and name not in declared]
    return "".join(f"PREFIX {name}: <{prefixes[name]}> " for name in missing) + query


def shortened(iri: str, prefixes: Mapping[str, str] | None = None) -> str:
    """``wdt:P31`` for an IRI under one of ``prefixes``, or of those that need not be declared; else empty."""
    known = prefixes.items() if prefixes else (*STANDARD_PREFIXES.items(), *SKB_PREFIXES.items())
    for prefix, namespace in known:
        local = iri.removeprefix(namespace)
        if local and local != iri and not _APART.search(local):
            return f"{prefix}:{local}"
    return ""


def declared_prefixes(tokens: Sequence[Token]) -> dict[str, str]:
    """The prefixes a query declares itself, the last declaration of a name counting."""
    return {
        name.text.split(":", 1)[0]: iri.text[1:-1]
        for keyword, name, iri in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if keyword.is_word("PREFIX") and name.kind == "name" and iri.kind == "iri"
    }


def expand(token: Token, declared: Mapping[str, str]) -> str:
    """The IRI an ``iri`` or ``name`` token stands for, as written; empty for other tokens and unknown prefixes."""
    if token.kind == "iri":
        return token.text[1:-1]
    if token.kind != "name":
        return ""
    prefix, local = token.text.split(":", 1)
    namespace = declared.get(prefix, STANDARD_PREFIXES.get(prefix))
    return "" if namespace is None else namespace + local


def respelled(iri: str) -> str:
    """The IRI with its letters beyond ASCII percent-encoded, or, where they are that, as themselves."""
    encoded = re.sub(r"[^\x00-\x7f]+", lambda found: quote(found[0]), iri)
    return encoded if encoded != iri else re.sub(r"(?:%[89A-Fa-f][\dA-Fa-f])+", lambda found: unquote(found[0]), iri)


def entity_ids(query: str) -> list[str]:
    """Ids that a query names, each once, in order. Raises QuerySyntaxError at a string that is never closed."""
    return list(dict.fromkeys(entity for _, entity in entity_tokens(tokenize(query))))


def entity_tokens(tokens: Sequence[Token]) -> list[tuple[Token, str]]:
    """The tokens that name an entity, each with the entity's id."""
    declared = declared_prefixes(tokens)
    # Any Wikibase has these paths under its own host.
    found = ((token, _ENTITY.search(expand(token, declared))) for token in tokens)
    return [(token, match[1]) for token, match in found if match]


def names_in(query: str, prefixes: Mapping[str, str]) -> list[str]:
    """IRIs that a query names, each once, in order, ``prefixes`` undeclared. Raises QuerySyntaxError."""
    tokens = tokenize(query)
    known = {**prefixes, **declared_prefixes(tokens)}
    declaring = {place + 2 for place, token in enumerate(tokens) if token.is_word("PREFIX")}
    declaring |= {place + 1 for place, token in enumerate(tokens) if token.is_word("BASE")}
    named = (
        expand(token, known)
        for place, token in enumerate(tokens)
        if place not in declaring and not (token.kind == "name" and token.text.endswith(":"))
    )
    return list(dict.fromkeys(filter(None, named)))


WIKIDATA = STANDARD_PREFIXES["wd"]
"""The concept base of Wikidata: what the IRIs of its entities begin with."""

LABEL_SERVICE = "http://wikiba.se/ontology#label"

INSTANCE_OF, SUBCLASS_OF, OCCUPATION, SEX = "P31", "P279", "P106", "P21"
MALE, FEMALE = "Q6581097", "Q6581072"
BIRTH, DEATH = "P569", "P570"

CONCEPTS: Mapping[str, str] = MappingProxyType(TABLES["concepts"])
"""Everything that kbnav names by an id of Wikidata's, with its English label there."""

_ID = r"[QPL][1-9][0-9]*(?:-[FS][1-9][0-9]*)?"
_ENTITY_ID = re.compile(_ID)
_PAGE = re.compile(rf"(?:Property:|Lexeme:|Item:)?({_ID})", re.IGNORECASE | re.ASCII)
_ENTITY_PREFIXES = ("wd", "wdt", "wdtn", "p", "ps", "psv", "psn", "pq", "pqv", "pqn", "pr", "prv", "prn", "wdno")
"""Prefixes whose names are an entity's, or a predicate's of a property."""


def wikibase_prefixes(concept_base: str) -> dict[str, str]:
    """The standard prefixes, those of Wikidata's IRIs hung on another concept base, as Wikibase makes them."""
    old, new = (base.removesuffix("entity/") for base in (WIKIDATA, concept_base))
    return {
        name: new + iri.removeprefix(old) if iri.startswith(old) else iri for name, iri in STANDARD_PREFIXES.items()
    }


@dataclass(frozen=True)
class Vocabulary:
    """A knowledge base's ``prefixes``, which need no declaring, and its ``ids`` of ``CONCEPTS``; None: Wikidata's."""

    concept_base: str = WIKIDATA
    prefixes: Mapping[str, str] = field(default_factory=lambda: STANDARD_PREFIXES)
    ids: Mapping[str, str] | None = None

    def of(self, concept: str) -> str:
        """The id here for one of Wikidata's; empty where there is none."""
        return concept if self.ids is None else self.ids.get(concept, "")

    def each(self, concepts: Iterable[str]) -> tuple[str, ...]:
        """The ids here for several of Wikidata's, in order; those that are not here are left out."""
        return tuple(one for concept in concepts if (one := self.of(concept)))

    @property
    def own_prefixes(self) -> Mapping[str, str]:
        """Those that no other knowledge base has."""
        return {name: iri for name, iri in self.prefixes.items() if name not in STANDARD_PREFIXES}

    @property
    def to_class(self) -> str:
        """The path from a thing to its classes, ``wdt:P31/wdt:P279*``; empty where nothing says what a thing is."""
        instance, wider = self.of(INSTANCE_OF), self.of(SUBCLASS_OF)
        return f"wdt:{instance}" + (f"/wdt:{wider}*" if wider else "") if instance else ""

    def predicate(self, iri: str) -> tuple[str, str]:
        """The prefix (``wdt``, ``ps``, ``wd``, …) and the id of an entity's IRI; empty for an IRI of elsewhere."""
        for name in _ENTITY_PREFIXES:
            start = self.prefixes.get(name)
            if start and iri.startswith(start) and _ENTITY_ID.fullmatch(iri, len(start)):
                return name, iri[len(start) :]
        return "", ""

    def entity_id(self, iri: str) -> str:
        """The id of an entity by its IRI, or by that of a property's predicate; empty for an IRI of elsewhere."""
        return self.predicate(iri)[1]

    def entities_in(self, text: str) -> list[str]:
        """The ids of the entities whose IRIs are in a text, as GROUP_CONCAT makes them."""
        return re.findall(rf"{re.escape(self.concept_base)}({_ID})(?![\w-])", text)

    def written_id(self, text: str) -> str:
        """The upper-case id in an IRI of this site, a prefixed name or a page's name; empty where there is none."""
        plain = text.strip().strip("<>")
        if "://" in plain:
            tail = plain.partition("://")[2]
            scheme, _, top = self.concept_base.removesuffix("entity/").partition("://")
            page = f"{top}wiki/"
            plain = tail.removeprefix(page) if tail.startswith(page) else self.entity_id(f"{scheme}://{tail}")
        elif (prefix := plain.partition(":")[0]) in self.prefixes:
            own = {self.prefixes.get(one) for one in _ENTITY_PREFIXES}  # a prefix may be another name for one of them
            plain = plain.removeprefix(f"{prefix}:") if self.prefixes[prefix] in own else ""
        found = _PAGE.fullmatch(plain)
        return found[1].upper() if found else ""


WIKIDATA_VOCABULARY = Vocabulary()


def vocabulary_of(kb: object) -> Vocabulary:
    """The words of a knowledge base; Wikidata's for one that says nothing of them."""
    found = getattr(kb, "vocabulary", None)
    return found if isinstance(found, Vocabulary) else WIKIDATA_VOCABULARY


class Terms:
    """What the terms of one query stand for, as its syntax tree has them; ``known`` are further prefixes."""

    def __init__(self, query: str, vocabulary: Vocabulary, known: Mapping[str, str] = MappingProxyType({})) -> None:
        self.vocabulary = vocabulary
        self._declared = {**known, **vocabulary.prefixes, **declared_prefixes(tokenize(query))}

    def iri(self, text: str) -> str:
        """The IRI that a name, an IRI or ``a`` stands for; empty for anything else."""
        if text in ("a", "A"):
            return STANDARD_PREFIXES["rdf"] + "type"
        tokens = tokenize(text)
        return expand(tokens[0], self._declared) if tokens else ""

    def predicate(self, text: str) -> tuple[str, str]:
        """The prefix and the id of a Wikibase's predicate or entity; empty for another term."""
        return self.vocabulary.predicate(self.iri(text))

    def literal(self, text: str) -> Term:
        """A literal as results have it."""
        first, *more = tokenize(text)
        if first.kind != "string":
            kinds = {"number": "integer" if text.lstrip("+-").isdigit() else "decimal", "word": "boolean"}
            return Term("literal", text, STANDARD_PREFIXES["xsd"] + kinds.get(first.kind, "decimal"))
        quotes = 3 if first.text[:3] in ('"""', "'''") else 1
        language = more[0].text[1:] if more and more[0].kind == "language" else None
        datatype = expand(more[1], self._declared) if len(more) > 1 else None
        return Term("literal", first.text[quotes:-quotes], datatype, language)
