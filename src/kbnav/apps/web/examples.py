"""Questions that are known to be answered, made of a knowledge base's own data where nobody has given any."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice

from kbnav.agents.common.agent import Agent
from kbnav.apps.building import build_system
from kbnav.apps.web.results import text_of
from kbnav.apps.web.service import EXAMPLES, Served
from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.skb.kb import as_skb
from kbnav.sessions.session import attempt
from kbnav.settings.model import OFFLINE
from kbnav.settings.systems import kb_kind, usual_agent

MOST = 3
TRIED = 6
"""Questions that are tried; each takes the time of an answer."""
ENOUGH = 15.0
"""Seconds after which one that is answered will do."""
_CLASSES = 4
"""Classes of an endpoint, those with the most members, of which questions are made."""
_PREPOSITIONS = frozenset(["after", "at", "by", "for", "from", "in", "into", "of", "on", "to", "under", "with"])
_STATES = frozenset(["based", "born", "buried", "located", "situated", "used"])
_STATED = """
SELECT ?name ?relation WHERE {
  { SELECT ?thing ?p WHERE {
      ?property wikibase:directClaim ?p ; wikibase:propertyType wikibase:WikibaseItem .
      ?thing ?p ?value . ?value rdfs:label ?any } LIMIT 20000 }
  ?property wikibase:directClaim ?p ; rdfs:label ?relation . FILTER(LANG(?relation) = "en")
  ?thing rdfs:label ?name . FILTER(LANG(?name) = "en")
} LIMIT 400
"""
"""Some names and relations of statements whose value has a label."""


def made_examples(served: Served) -> Sequence[str]:
    """A few questions that the rules answer here without leaving a word out.

    Of live Wikidata they are those of the bundled copy, whose facts it has too; of others they are made of the data: of
    statements of a mirror, values of an endpoint's largest classes, edges of an SKB. Raises as the knowledge base.
    """
    system = build_system(served.kb, served.asking(usual_agent(served.kb), OFFLINE), usual_agent(served.kb))
    if not isinstance(system, Agent):
        return ()
    good: list[str] = []
    began = time.monotonic()
    for question in islice(_questions(served.kb), TRIED):
        if len(good) == MOST or (good and time.monotonic() > began + ENOUGH):
            break
        good += [question] if _is_answered(system, question) else []
    return tuple(good)


def _questions(kb: KnowledgeBase) -> Iterator[str]:
    """Questions to try, the likeliest to be answered first."""
    kind = kb_kind(kb)
    if kind == "skb":
        return _of_edges(kb)
    if kind == "sparql":
        return _of_classes(kb)
    if kind == "several":
        return iter([question for questions in EXAMPLES.values() for question in questions])
    return _of_statements(kb) if is_mirror(kb.state()) else iter(EXAMPLES["mini"])


def _of_statements(kb: KnowledgeBase) -> Iterator[str]:
    """One of each relation, and of each thing; of relations whose name stands well before "of"."""
    used: set[str] = set()
    for name, relation in kb.execute_query(_STATED).rows:
        if name and relation and used.isdisjoint((name.value, relation.value)) and _is_noun(relation.value):
            used |= {name.value, relation.value}
            yield f"What is the {relation.value} of {name.value}?"


def _of_edges(kb: KnowledgeBase) -> Iterator[str]:
    """One of each relation of an SKB, those with the most edges first."""
    skb = as_skb(kb, "making examples").skb
    counts: Counter[str] = Counter()
    for one in skb.meta.tuples:
        counts[one.relation] += one.count
    for relation, _ in counts.most_common():
        for example in kb.get_property_examples(relation, limit=1):
            yield _which(example.subject.kind, example.property.label or relation, example.value.text)


def _of_classes(kb: KnowledgeBase) -> Iterator[str]:
    """Of the largest classes of an endpoint: which of its members have some value that one of them has."""
    if not isinstance(kb, EndpointKB):
        return
    classes = sorted(kb.classes(), key=lambda one: -one.count)[:_CLASSES]
    described = cache(lambda name: [share.entity for share in kb.class_profile(name).properties])
    for turn in range(_CLASSES):  # the commonest property of each, then the next one of each
        for one in classes:
            for has in described(one.entity.id)[turn : turn + 1]:
                table = kb.execute_query(f"SELECT ?value WHERE {{ ?one a {one.entity.id} ; {has.id} ?value }} LIMIT 1")
                if value := text_of(table.rows[0][0], table) if table.rows else "":
                    yield _which(one.entity.label, has.label or has.id, value)


def _is_noun(relation: str) -> bool:
    words = relation.casefold().split()
    return bool(words) and words[0] != "has" and words[-1] not in _PREPOSITIONS


def _which(kind: str, relation: str, name: str) -> str:
    """A question for what is linked to something, which reads as well as the relation's name lets it."""
    kind, relation = kind.replace("_", " ").casefold(), relation.replace("_", " ").strip() or relation
    first, *_ = words = relation.casefold().split()
    last = words[-1]
    if last in ("by", "of") or (first in _STATES and last in _PREPOSITIONS):
        return f"Which {kind} is {relation} {name}?"
    verb = last in _PREPOSITIONS or first == "has" or relation.casefold().endswith("ed")
    return f"Which {kind} {relation} {name}?" if verb else f"Which {kind} has the {relation} {name}?"


def _is_answered(agent: Agent, question: str) -> bool:
    """Whether the rules answer it in one query of which no word is left over; most wrong readings leave some."""
    try:
        outcome = attempt(agent, question).run.outcome
    except KbnavError:
        return False
    read = outcome.understood
    return outcome.status == "answered" and read is not None and not read.unused
