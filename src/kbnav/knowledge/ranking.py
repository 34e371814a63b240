"""Edges ranked against a phrase, whatever knowledge base they come from, and their relations counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from kbnav.answers.relevance import relevance
from kbnav.knowledge.base import Edge, Entity, Neighborhood, Share

RELATIONS = 8
"""Relations of a hub that are looked at, those that fit the phrase best."""
_SIMILARITY = 0.5
"""Weight of the similarity of spelling beside that of shared words, which is at most 1."""
_ALIKE = 0.7
"""Similarity of spelling from which on an edge without a shared word fits."""
T = TypeVar("T")
NOTHING_FITS = "No edge matches “{}”: these are {}."
_OF_EACH = "each of another property; give `relation` to see all of one"


def neighborhood(
    entity: Entity, candidates: Sequence[tuple[Edge, str]], phrase: str, limit: int, note: str = ""
) -> Neighborhood:
    """The best edges of an entity for a phrase. Without a phrase, or where none fits it, the relations take turns."""
    ranked, relations = rank(candidates, phrase, limit), counted(candidates)
    if not ranked and candidates:
        if phrase.strip() and len(candidates) > RELATIONS:
            many = len(relations) >= RELATIONS
            limit = min(limit, len(relations)) if many else limit
            shown = NOTHING_FITS.format(phrase.strip(), _OF_EACH if many else "the first")
            note = " ".join(filter(None, (shown, note)))
        ranked = tuple(in_turn([edge for edge, _ in candidates], lambda one: one.way)[:limit])
    return Neighborhood(entity, ranked, len(candidates), relations, note)


def rank(candidates: Sequence[tuple[Edge, str]], phrase: str, limit: int) -> tuple[Edge, ...]:
    """The best edges for a phrase, with scores, 0 for what does not fit it; none where nothing does."""
    texts = [f"{edge.relation.label} {edge.neighbor.text} {description}" for edge, description in candidates]
    shared = _shared_words(phrase, texts)
    alike = [_spelling(phrase, [edge.relation.label, edge.neighbor.text]) for edge, _ in candidates]
    scored = [
        (words + _SIMILARITY * spelling if words or spelling >= _ALIKE else 0.0, edge)
        for (edge, _), words, spelling in zip(candidates, shared, alike, strict=True)
    ]
    if not any(score for score, _ in scored):
        return ()
    scored.sort(key=lambda pair: -pair[0])
    return tuple(replace(edge, score=round(score, 4)) for score, edge in scored[:limit])


def counted(candidates: Sequence[tuple[Edge, str]]) -> tuple[Share, ...]:
    """The relations of some edges, those that come in under ``^relation``, most frequent first."""
    names: dict[str, Entity] = {}
    numbers: Counter[str] = Counter()
    for edge, _ in candidates:
        names[edge.way] = replace(edge.relation, id=edge.way)
        numbers[edge.way] += 1
    return tuple(Share(names[key], number) for key, number in numbers.most_common())


def best_relations(relations: Sequence[Entity], phrase: str) -> list[str]:
    """Ids of the properties that fit a phrase best."""
    shared = _shared_words(phrase, [f"{one.label} {one.description}" for one in relations])
    score = {
        one.id: words + _SIMILARITY * _spelling(phrase, [one.label])
        for one, words in zip(relations, shared, strict=True)
    }
    return sorted(score, key=lambda one: -score[one])[:RELATIONS]


def _shared_words(phrase: str, texts: Sequence[str]) -> list[float]:
    scores = relevance(phrase, texts)
    best = max(scores, default=0.0) or 1.0
    return [score / best for score in scores]


def _spelling(phrase: str, names: Sequence[str]) -> float:
    from rapidfuzz import fuzz, utils

    ratios = [fuzz.token_set_ratio(phrase, name, processor=utils.default_process) for name in names if name]
    return max(ratios, default=0.0) / 100


def in_turn(found: Iterable[T], group: Callable[[T], object]) -> list[T]:
    """One edge of each group, as of a relation and direction, then a second of each, and so on."""
    seen: Counter[object] = Counter()
    turns = []
    for edge in found:
        turns.append((seen[group(edge)], edge))
        seen[group(edge)] += 1
    return [edge for _, edge in sorted(turns, key=lambda pair: pair[0])]
