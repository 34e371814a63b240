"""Questions that a knowledge base is known to answer, made of its own data where nobody has given any."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.answers.language import plural
from kbnav.apps.console import EXAMPLES
from kbnav.apps.web.results import text_of
from kbnav.apps.web.service import Served, Service
from kbnav.errors import KbnavError
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.skb.kb import as_skb
from kbnav.models.cancellation import in_thread
from kbnav.sessions.session import attempt
from kbnav.settings.model import OFFLINE
from kbnav.settings.systems import kb_kind, usual_agent

MOST = 3
TRIED = 8
"""Questions that are tried; each takes the time of an answer."""
ENOUGH = 15.0
"""Seconds after which one that is answered will do; none takes longer."""
LONGEST = 60.0
"""Seconds after which no other is tried."""
_PREPOSITIONS = frozenset({"as", "at", "by", "for", "from", "in", "of", "on", "to", "with"})
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


def examples_of(service: Service, served: Served) -> Future[list[str]]:
    """A few questions that are known to be answered; where none are given, they are made of the data, beside, once."""
    made = service.examples.get(served.key)
    if made is None or (made.done() and (made.exception() or not made.result())):  # it may answer now
        made = service.examples[served.key] = in_thread(partial(_examples, served), service.ending)
    return made


def _examples(served: Served) -> list[str]:
    """Those that are given; else a few that the rules answer here by one query without leaving a word out."""
    good = list(EXAMPLES.get(served.key, ()))
    if good:
        return good
    settings = served.asking(usual_agent(served.kb), OFFLINE)
    budget = settings.budget.model_copy(update={"seconds": ENOUGH})
    agent = build_agent(served.kb, settings.model_copy(update={"budget": budget}))
    began = time.monotonic()
    for ways in islice(filter(None, _questions(served.kb)), TRIED):
        if len(good) == MOST or time.monotonic() - began > (ENOUGH if good else LONGEST):
            break
        good += islice((question for question in ways if _is_answered(agent, question)), 1)
    return good


def _is_answered(agent: Agent, question: str) -> bool:
    try:
        outcome = attempt(agent, question).run.outcome
    except KbnavError:
        return False
    return outcome.status == "answered" and outcome.understood is not None and not outcome.understood.unused


def _questions(kb: KnowledgeBase) -> Iterator[Sequence[str]]:
    """Questions to try, each in its ways: of edges of an SKB, the classes of an endpoint, statements of a mirror."""
    if kb_kind(kb) == "skb":
        counts: Counter[str] = Counter()
        for one in as_skb(kb, "making examples").skb.meta.tuples:
            counts[one.relation] += one.count
        for relation, _ in counts.most_common():
            for edge in kb.get_property_examples(relation, limit=1):
                subject, name = edge.subject, edge.property.label or relation
                yield _asked(subject.kind, name, subject.label, edge.value.text)
    elif isinstance(kb, EndpointKB):
        for kind in sorted(kb.classes(), key=lambda kind: -kind.count)[:TRIED]:
            for has in [share.entity for share in kb.class_profile(kind.entity.id).properties[:1]]:
                pattern = f"?one a {kind.entity.id} ; {has.id} ?value"
                table = kb.execute_query(f"SELECT ?one ?value WHERE {{ {pattern} }} LIMIT 1")
                for thing, value in table.rows:
                    names = table.label(thing) or "", text_of(value, table)
                    yield _asked(kind.entity.label, has.label or has.id, *names)
            yield [f"How many {plural(2, kind.entity.label).removeprefix('2 ')} are there?"]
    elif is_mirror(kb.state()):
        used: set[str] = set()
        for thing, stated in kb.execute_query(_STATED).rows:
            if thing and stated and used.isdisjoint((thing.value, stated.value)):
                used |= {thing.value, stated.value}
                yield _asked("", stated.value, thing.value, "")
    else:
        yield from ([one] for one in EXAMPLES["mini"])


def _asked(kind: str, relation: str, thing: str, value: str) -> list[str]:
    """What a person would ask: of a noun what it is, of a verb or a preposition who or which does it."""
    kind, relation = kind.replace("_", " ").casefold(), relation.replace("_", " ").strip() or relation
    noun = relation.removeprefix("has ")
    first, *_, last = relation.casefold().split(" ") * 2
    start, *_ = words = noun.casefold().split(" ")
    ends_in_s = start.endswith("s") and not start.endswith(("ss", "us", "is"))
    if last in _PREPOSITIONS or last.endswith("ed"):
        if not value or (ends_in_s and last == "of"):  # "members of"
            return []
        be = "" if last.endswith("ed") or first.endswith("s") else "was " if first == "born" else "is "
        people = ["Who"] * (kind in ("person", "people", "human"))
        return [f"{who} {be}{relation} {value}?" for who in (*people, f"Which {kind}")]
    inner = _PREPOSITIONS - {"for", "of"} & {*words}  # "office held by head of government"
    odd = ends_in_s or start.endswith("ed") or "(" in noun or inner  # "the cites of"
    return [f"What is the {noun} of {thing}?"] * (bool(thing) and not odd)
