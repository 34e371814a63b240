"""What a baseline is given of gold answers, where its options say so (SPINACH, section 5.3); such runs are marked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from kbnav.errors import QuerySyntaxError, UsageError
from kbnav.evaluation.records import GoldAnswer
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.sparql.prefixes import entity_ids
from kbnav.settings.options import GIVEN, FromGold

TOPICS = 20
"""Entities that are drawn from a gold answer at most, as in the paper."""


def given_of_gold(
    what: FromGold, answers: Sequence[GoldAnswer], kb: KnowledgeBase, seed: int = 0
) -> Mapping[str, Mapping[str, str]]:
    """By question, entities of its gold query, or some of its gold answer drawn with ``seed``: English labels by id.

    All labels are asked for in one batched call; an entity without one has an empty text. A question whose gold has no
    entity, such as one for a number, gets none.

    Raises UsageError where no question has any: there is nothing to measure then.
    """
    found = {one.id: _of_query(one) if what == "entities" else _drawn(one, seed) for one in answers}
    ids = list(dict.fromkeys(each for own in found.values() for each in own))
    if not ids:
        raise UsageError(f"no question has {GIVEN[what]} to give")
    labels = kb.labels(ids, language="en")
    return {name: {each: labels.get(each, "") for each in own} for name, own in found.items()}


def _of_query(answer: GoldAnswer) -> list[str]:
    """What a named entity disambiguation would find: items and lexemes; the properties stay to be found."""
    try:
        return [one for one in entity_ids(answer.query) if not one.startswith("P")]
    except QuerySyntaxError:
        return []


def _drawn(answer: GoldAnswer, seed: int) -> list[str]:
    cells = (cell for row in (answer.table.rows if answer.table else ()) for cell in row)
    ids = list(dict.fromkeys([*answer.nodes, *(cell.entity_id for cell in cells if cell and cell.entity_id)]))
    return random.Random(f"{seed} {answer.id}").sample(ids, min(TOPICS, len(ids)))
