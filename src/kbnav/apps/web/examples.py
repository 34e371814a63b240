"""Questions that a knowledge base is known to answer, made of its own data where nobody has given any."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from kbnav.agents.common.agent import Agent
from kbnav.apps.console import EXAMPLES
from kbnav.apps.web.results import text_of
from kbnav.apps.web.service import Served, build_system
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


def made_examples(served: Served) -> list[str]:
    """A few questions that the rules answer here by one query without leaving a word out. Raises as the KB."""
    system = build_system(served.kb, served.asking(usual_agent(served.kb), OFFLINE), usual_agent(served.kb))
    good: list[str] = []
    began = time.monotonic()
    for question in islice(_questions(served.kb), TRIED):
        if len(good) == MOST or (good and time.monotonic() > began + ENOUGH) or not isinstance(system, Agent):
            break
        try:
            outcome = attempt(system, question).run.outcome
        except KbnavError:
            continue
        if outcome.status == "answered" and outcome.understood is not None and not outcome.understood.unused:
            good.append(question)
    return good


def _questions(kb: KnowledgeBase) -> Iterator[str]:
    """Questions to try: of edges of an SKB, values of an endpoint's largest classes, statements of a mirror."""
    if kb_kind(kb) == "skb":
        counts: Counter[str] = Counter()
        for one in as_skb(kb, "making examples").skb.meta.tuples:
            counts[one.relation] += one.count
        for relation, _ in counts.most_common():
            for example in kb.get_property_examples(relation, limit=1):
                yield _which(example.subject.kind, example.property.label or relation, example.value.text)
    elif isinstance(kb, EndpointKB):
        for kind in sorted(kb.classes(), key=lambda kind: -kind.count)[:TRIED]:
            for has in [share.entity for share in kb.class_profile(kind.entity.id).properties[:1]]:
                table = kb.execute_query(f"SELECT ?value WHERE {{ ?one a {kind.entity.id} ; {has.id} ?value }} LIMIT 1")
                if value := text_of(table.rows[0][0], table) if table.rows else "":
                    yield _which(kind.entity.label, has.label or has.id, value)
    elif is_mirror(kb.state()):
        used: set[str] = set()
        for thing, stated in kb.execute_query(_STATED).rows:
            if thing and stated and used.isdisjoint((thing.value, stated.value)):
                used |= {thing.value, stated.value}
                yield f"What is the {stated.value} of {thing.value}?"
    else:
        yield from EXAMPLES["mini"]


def _which(kind: str, relation: str, name: str) -> str:
    """A question for what is linked to something; a relation that ends in a participle or preposition is a verb."""
    kind, relation = kind.replace("_", " ").casefold(), relation.replace("_", " ").strip() or relation
    last = relation.casefold().rpartition(" ")[2]
    if last in ("by", "in", "of", "on", "at", "to", "from"):
        return f"Which {kind} is {relation} {name}?"
    return f"Which {kind} {relation} {name}?" if last.endswith("ed") else f"Which {kind} has the {relation} {name}?"
