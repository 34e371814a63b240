"""How profiles of properties and classes are shown: counts first, then what is commonest, with shares."""

from __future__ import annotations

from collections.abc import Sequence

from kbnav.knowledge.base import ClassProfile, PropertyProfile, Share
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, WIKIDATA_VOCABULARY, Vocabulary
from kbnav.tools.observation import Shown
from kbnav.tools.show import entity_name, statement_text

_LEAST = 0.02
"""Share below which a qualifier, unit or class is not worth a word."""


def property_text(profile: PropertyProfile, property_id: str, shown: Shown) -> str:
    """How a property is used, and two statements with their qualifiers."""
    direct, whole = (counted(number, profile.limit) for number in (profile.direct, profile.statements))
    lines = [f"{property_id} is used {direct} times as wdt:{property_id} and {whole} times as p:{property_id}."]
    sampled = profile.sampled
    if sampled and profile.subjects:
        many = f"{sampled / profile.subjects:.1f}".removesuffix(".0")
        of = f"In the first {sampled:,} statements" if sampled < profile.statements else "In all of them"
        lines.append(f"{of}: {many} a subject{listed('; qualifiers', profile.qualifiers, sampled)}.")
    kinds = [
        listed("Subjects are", profile.subject_classes, min(profile.direct, 1_000)),
        listed("values are", profile.value_classes, min(profile.direct, 1_000)),
        listed("units are", profile.units, sampled),
    ]
    if any(kinds):
        text = "; ".join(kind for kind in kinds if kind)
        lines.append(f"{text[0].upper()}{text[1:]}.")
    for use in profile.uses:
        # The property has been named; its id alone is read more easily.
        lines.append(f"With qualifiers: {entity_name(use.subject)} -- {statement_text(use.statement, shown)}")
    return "\n".join(lines)


def class_text(profile: ClassProfile, words: Vocabulary = WIKIDATA_VOCABULARY) -> str:
    """How many members a class has, and what they have; empty for what is no class."""
    if not profile.below:
        return ""
    direct, below = (counted(number, profile.limit) for number in (profile.direct, profile.below))
    of = "their" if profile.sampled >= profile.below else f"of the first {profile.sampled:,} the"
    used = ", ".join(
        f"{entity_name(share.entity)} {share.count:,}"
        for share in profile.properties
        if share.entity.id != words.of(INSTANCE_OF)
    )
    return (
        f"A class with {direct} direct instances (wdt:{words.of(INSTANCE_OF)}), {below} with those of its subclasses "
        f"({words.to_class}); {of} properties, with how many have them: {used}."
    )


def incoming_text(shares: Sequence[Share]) -> str:
    """The edges that come in, counted by property; empty where there are none."""
    if not shares:
        return ""
    return "Edges that come in: " + ", ".join(f"{entity_name(one.entity)} ×{one.count:,}" for one in shares) + "."


def counted(number: int, limit: int) -> str:
    """A count, or that it is over the limit up to which was counted."""
    return f"over {limit:,}" if number > limit else f"{number:,}"


def listed(head: str, shares: Sequence[Share], total: int) -> str:
    """The shares of a sample that are worth a word, in percent; empty where there are none."""
    worth = [share for share in shares if total and share.count >= _LEAST * total]
    if not worth:
        return ""
    return f"{head} {', '.join(f'{entity_name(one.entity)} {100 * one.count / total:.0f} %' for one in worth)}"
