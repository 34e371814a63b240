"""Cutting an entry to what matters for a question (SPINACH, section 4.1): by ranking, or by a model."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from kbnav.answers.relevance import relevance
from kbnav.knowledge.base import Entry, Statement
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.prompts import render
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Settings
from kbnav.tools.context import Pruner, Shown

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_WHOLE = 60_000
"""Bytes of an entry that a prompt has room for, about 15,000 tokens."""
_UNRELATED_VALUES = 2
"""Values shown of a property that shares nothing with the question."""


def prune_by_ranking(shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY) -> Pruner:
    """Keep the statements that share most with the question, up to ``shown.statements``, and what the entity is.

    Properties are ranked by their best statement, so that the values of one property stay together. No model is asked.
    """
    # What the entity is matters for every question.
    always = (*words.each((INSTANCE_OF, SUBCLASS_OF)), "rdf:type", "rdfs:subClassOf")

    def prune(entry: Entry, question: str) -> tuple[Entry, Usage]:
        if len(entry.statements) <= shown.statements:
            return entry, Usage()
        texts = []
        for one in entry.statements:
            more = " ".join(f"{of.property.label} {of.value.text}" for of in one.qualifiers)
            texts.append(f"{one.property.label} {one.value.text} {more}")
        scores = relevance(question, texts)
        best: dict[str, float] = {}
        for statement, score in zip(entry.statements, scores, strict=True):
            owner = statement.property.id
            best[owner] = max(best.get(owner, 0.0), score + (owner in always) * 1e9)
        kept: list[Statement] = []
        for owner in sorted(best, key=lambda name: -best[name]):
            own = [statement for statement in entry.statements if statement.property.id == owner]
            values = shown.values if best[owner] > 0 else _UNRELATED_VALUES
            kept += own[: min(values, shown.statements - len(kept))]
            if len(kept) >= shown.statements:
                break
        return replace(entry, statements=tuple(kept)), Usage()

    return prune


def pruner(
    settings: Settings, model: BaseChatModel | None, shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY
) -> Pruner:
    """The way the settings choose; without a model entries are ranked."""
    if settings.pruning == "none":
        return lambda entry, _: (entry, Usage())
    if model is not None and settings.pruning == "model":
        return prune_whole(model, shown, words)
    return prune_by_ranking(shown, words)


def prune_whole(model: BaseChatModel, shown: Shown, words: Vocabulary = WIKIDATA_VOCABULARY) -> Pruner:
    """Keep just what a model keeps, by property or value, of an entry that it sees whole (SPINACH, Table 13).

    Entries beyond about 15,000 tokens are cut, which the prompt says. Only an unreadable reply leads to ranking.
    """
    from kbnav.models.chat import ask

    by_ranking = prune_by_ranking(shown, words)

    def prune(entry: Entry, question: str) -> tuple[Entry, Usage]:
        if not entry.statements:
            return entry, Usage()
        seen: dict[tuple[str, int], Statement] = {}
        properties: dict[str, tuple[str, str, list[str]]] = {}
        room = _WHOLE
        for one in entry.statements:
            text = _with_qualifiers(one)
            room -= len(text.encode())
            if room < 0:
                break
            values = properties.setdefault(one.property.id, (one.property.id, one.property.label, []))[2]
            values.append(text)
            seen[one.property.id, len(values)] = one
        left_out = len(entry.statements) - len(seen)
        listed = [
            (owner, label, [f"#{number} {text}" for number, text in enumerate(texts, 1)] if len(texts) > 1 else texts)
            for owner, label, texts in properties.values()
        ]
        told = {"question": question, "entity": entry.entity, "properties": listed, "left_out": left_out}
        text, usage = ask(model, render("spinach/prune.md", **told))
        chosen = {
            (owner, int(number or 0))
            for owner in properties
            for number in re.findall(rf"(?<![\w^]){re.escape(owner)}(?:#(\d+))?(?!\w)", text)
        }
        if not chosen and "[]" not in text:
            return by_ranking(entry, question)[0], usage
        kept = [one for key, one in seen.items() if key in chosen or (key[0], 0) in chosen]
        return replace(entry, statements=tuple(kept)), usage

    return prune


def _with_qualifiers(one: Statement) -> str:
    told = "; ".join(f"{of.property.label or of.property.id}: {of.value.text}" for of in one.qualifiers)
    return one.value.text + (f" [{told}]" if told else "")
