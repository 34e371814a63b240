"""What a knowledge base calls things: its prefixes, where its entities are, and its ids for what kbnav speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, shortened

WIKIDATA = STANDARD_PREFIXES["wd"]
"""The concept base of Wikidata: what the IRIs of its entities begin with."""

INSTANCE_OF, SUBCLASS_OF, OCCUPATION, SEX = "P31", "P279", "P106", "P21"
MALE, FEMALE = "Q6581097", "Q6581072"

CONCEPTS: Mapping[str, str] = MappingProxyType(
    {
        INSTANCE_OF: "instance of",
        SUBCLASS_OF: "subclass of",
        OCCUPATION: "occupation",
        SEX: "sex or gender",
        MALE: "male",
        FEMALE: "female",
        "P17": "country",
        "P50": "author",
        "P57": "director",
        "P131": "located in the administrative territorial entity",
        "P175": "performer",
        "P518": "applies to part",
        "P569": "date of birth",
        "P571": "inception",
        "P576": "dissolved, abolished or demolished date",
        "P577": "publication date",
        "P580": "start time",
        "P582": "end time",
        "P585": "point in time",
        "P642": "of",
        "P1365": "replaces",
        "P1366": "replaced by",
        "P1480": "sourcing circumstances",
        "P1545": "series ordinal",
        "P1810": "subject named as",
        "P1855": "Wikidata property example",
        "P2271": "Wikidata property example for properties",
        "P2868": "subject has role",
        "P3831": "object of statement has role",
        "P5192": "Wikidata property example for lexemes",
        "P5977": "Wikidata property example for senses",
    }
)
"""Everything that kbnav names by an id of Wikidata's, with its English label there: what another Wikibase has for it is
looked up once."""

_ID = r"[QPL][1-9][0-9]*(?:-[FS][1-9][0-9]*)?"
_ENTITY_ID = re.compile(_ID)
_PAGE = re.compile(rf"(?:Property:|Lexeme:|Item:)?({_ID})", re.IGNORECASE | re.ASCII)
_ENTITY_PREFIXES = ("wd", "wdt", "wdtn", "p", "ps", "psv", "psn", "pq", "pqv", "pqn", "pr", "prv", "prn", "wdno")
"""Prefixes whose names are an entity's, or a predicate's of a property."""


def wikibase_prefixes(concept_base: str) -> dict[str, str]:
    """The standard prefixes with those of Wikidata's own IRIs hung on another concept base.

    Wikibase makes all of them of that one (``https://kb.example/entity/``: ``wdt:`` is
    ``https://kb.example/prop/direct/``).
    """
    old, new = (base.removesuffix("entity/") for base in (WIKIDATA, concept_base))
    return {
        name: new + iri.removeprefix(old) if iri.startswith(old) else iri for name, iri in STANDARD_PREFIXES.items()
    }


@dataclass(frozen=True)
class Vocabulary:
    """The words of one knowledge base.

    ``prefixes`` need not be declared in a query. ``ids`` has this knowledge base's id for each of ``CONCEPTS`` that it
    has; None: the ids are Wikidata's.
    """

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

    def entity_id(self, iri: str) -> str:
        """The id of an entity by its IRI, or by that of a property's predicate; empty for an IRI of elsewhere."""
        for name in _ENTITY_PREFIXES:
            start = self.prefixes.get(name)
            if start and iri.startswith(start) and _ENTITY_ID.fullmatch(iri, len(start)):
                return iri[len(start) :]
        return ""

    def entities_in(self, text: str) -> list[str]:
        """The ids of the entities whose IRIs are in a text, as GROUP_CONCAT makes them."""
        return re.findall(rf"{re.escape(self.concept_base)}({_ID})(?![\w-])", text)

    def written_id(self, text: str) -> str:
        """The id in what a person or a model writes: an IRI, a prefixed name, a page's name; in upper case, or empty.

        An IRI of another site is no id here.
        """
        plain = text.strip().strip("<>")
        if "://" in plain:
            tail = plain.partition("://")[2]
            scheme, _, top = self.concept_base.removesuffix("entity/").partition("://")
            page = f"{top}wiki/"
            plain = tail.removeprefix(page) if tail.startswith(page) else self.entity_id(f"{scheme}://{tail}")
        elif (prefix := plain.partition(":")[0]) in self.prefixes:
            plain = plain.removeprefix(f"{prefix}:") if prefix in _ENTITY_PREFIXES or self._own(prefix) else ""
        found = _PAGE.fullmatch(plain)
        return found[1].upper() if found else ""

    def shortened(self, iri: str) -> str:
        """``wdt:P31`` for an IRI that a query need not declare a prefix for; empty for any other."""
        return shortened(iri, self.prefixes)

    def _own(self, prefix: str) -> bool:
        """Whether a prefix is another name for one of an entity's."""
        return self.prefixes[prefix] in {self.prefixes[one] for one in _ENTITY_PREFIXES if one in self.prefixes}


WIKIDATA_VOCABULARY = Vocabulary()


def vocabulary_of(kb: object) -> Vocabulary:
    """The words of a knowledge base; Wikidata's for one that says nothing of them."""
    found = getattr(kb, "vocabulary", None)
    return found if isinstance(found, Vocabulary) else WIKIDATA_VOCABULARY
