"""What a query's terms are called in words: variables, entities by their labels, literals, properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from kbnav.answers.tables import SKB_NODE
from kbnav.knowledge.sparql.syntax import bound_variables, is_variable, parse_query
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, Vocabulary, declared_prefixes, expand, shortened, words_of
from kbnav.knowledge.sparql.words.phrases import Phrases

_SERVED = ("Description", "AltLabel", "Label")
_ROLES = ("wdt", "wdtn", "p", "ps", "psv", "psn", "pq", "pqv", "pqn", "pr", "prv", "prn", "wdno", "wd")
_DATE = re.compile(r"([+-]?\d{4,}-\d\d-\d\d)(?:T00:00:00(?:\.0+)?Z?)?")
_MOST = 8
"""Terms of a list that are said; of more, how many there are."""


@dataclass(frozen=True)
class Property:
    """A property in a query.

    ``role`` is the prefix of the predicate that stands for it (``wdt``, ``p``, ``ps``, …) where it is a Wikibase's,
    else empty; ``id`` is its id or IRI.
    """

    role: str
    id: str
    label: str


@dataclass(frozen=True)
class Naming:
    """How one query's terms are said.

    ``labels`` has them by entity id, or by names and IRIs as the query writes them; what has none is called by its id,
    or by the last words of its IRI.
    """

    phrases: Phrases
    labels: Mapping[str, str]
    vocabulary: Vocabulary
    declared: Mapping[str, str]
    bound: Collection[str] = ()

    @classmethod
    def of(cls, query: str, phrases: Phrases, labels: Mapping[str, str], vocabulary: Vocabulary) -> Naming:
        """The naming of a query's terms. Raises QuerySyntaxError where it is no query."""
        declared = {**SKB_PREFIXES, **vocabulary.prefixes, **declared_prefixes(tokenize(query))}
        return cls(phrases, labels, vocabulary, declared, frozenset(bound_variables(parse_query(query))))

    def served(self, name: str) -> tuple[str, str]:
        """Of a variable that the label service fills, whose it is and with what: ``?x`` and ``Label``; else empty."""
        ending = next((one for one in _SERVED if name.endswith(one) and name not in self.bound), "")
        owner = name.removesuffix(ending)
        return (owner, ending) if ending and owner in self.bound else ("", "")

    def iri(self, text: str) -> str:
        """The IRI that a name, an IRI or ``a`` stands for; empty for anything else."""
        if text in ("a", "A"):
            text = "rdf:type"
        return expand(tokenize(text)[0], self.declared) if text[:1] not in "?_\"'" else ""

    def known(self, text: str) -> str:
        """A name that phrases may have: ``rdfs:label`` for its IRI."""
        return shortened(self.iri(text))

    def property(self, text: str) -> Property:
        """What a predicate's name stands for."""
        iri = self.iri(text)
        for role in _ROLES:
            start = self.vocabulary.prefixes.get(role, "")
            entity = self.vocabulary.entity_id(iri) if start and iri.startswith(start) else ""
            if entity and iri == start + entity:
                return Property(role, entity, self.labels.get(entity, entity))
        return Property("", iri, self._called(text, iri))

    def thing(self, text: str) -> str:
        """A term in words: ``[name]`` for a variable, a label, a literal as people write it."""
        if is_variable(text):
            owner, ending = self.served(text)
            if ending:
                return self.phrases.property_of.format(property=self.phrases.names[ending], subject=self.thing(owner))
            return f"[{text[1:]}]"
        if text.startswith("_:"):
            return self.phrases.something
        if text[:1] in "\"'" or text[:1].isdigit() or text[:1] in "+-" or text.lower() in ("true", "false"):
            return self._literal(text)
        return self._called(text, self.iri(text))

    def listed(self, texts: Sequence[str]) -> str:
        """Several terms with commas; of many the first, and how many more there are."""
        shown = [self.thing(text) for text in texts[:_MOST]]
        more = len(texts) - len(shown)
        return ", ".join([*shown, *([self.phrases.and_more.format(count=f"{more:,}")] if more else [])])

    def _called(self, text: str, iri: str) -> str:
        node = unquote(iri.removeprefix(SKB_NODE)) if iri.startswith(SKB_NODE) else ""
        entity = self.vocabulary.entity_id(iri) or node
        known = self.phrases.names.get(shortened(iri))
        return self.labels.get(entity or text) or self.labels.get(iri) or known or entity or _plain(iri) or text

    def _literal(self, text: str) -> str:
        tokens = tokenize(text)
        if tokens[0].kind != "string":
            return text
        content = tokens[0].text
        quotes = 3 if content.startswith(('"""', "'''")) else 1
        content = content[quotes:-quotes]
        if len(tokens) > 1 and tokens[1].kind == "language":
            return f"“{content}” ({tokens[1].text[1:]})"
        if len(tokens) > 1:
            date = _DATE.fullmatch(content)
            return date[1] if date else content
        return f"“{content}”"


def _plain(iri: str) -> str:
    """The last part of an IRI as words; of a site, its host."""
    return iri.split("://")[-1].rstrip("/") if iri.endswith("/") else words_of(iri)
