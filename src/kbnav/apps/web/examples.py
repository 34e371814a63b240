"""Questions that are known to be answered, made of a knowledge base's own data where nobody has given any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kbnav.agents.common.agent import Agent
from kbnav.apps.building import build_system
from kbnav.apps.web.service import Served
from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.session import attempt
from kbnav.settings import OFFLINE
from kbnav.systems import usual_agent

MOST = 3
TRIED = 9
"""Questions that are tried; each takes the time of an answer."""
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
    """A few questions that the rules answer here without leaving a word out; none of live services, nor of an endpoint.

    Raises as the knowledge base.
    """
    if served.is_skb or not is_mirror(served.kb.state()):
        return ()
    system = build_system(served.kb, served.asking(usual_agent(served.kb), OFFLINE), usual_agent(served.kb))
    if not isinstance(system, Agent):
        return ()
    good = (question for question in islice(_questions(served.kb), TRIED) if _is_answered(system, question))
    return tuple(islice(good, MOST))


def _questions(kb: KnowledgeBase) -> Iterator[str]:
    """One of each relation, and of each thing."""
    used: set[str] = set()
    for name, relation in kb.execute_query(_STATED).rows:
        if name and relation and used.isdisjoint((name.value, relation.value)):
            used |= {name.value, relation.value}
            yield f"What is the {relation.value} of {name.value}?"


def _is_answered(agent: Agent, question: str) -> bool:
    """Whether the rules answer it in one query of which no word is left over; most wrong readings leave some."""
    try:
        outcome = attempt(agent, question).run.outcome
    except KbnavError:
        return False
    read = outcome.understood
    return outcome.status == "answered" and read is not None and not read.unused
