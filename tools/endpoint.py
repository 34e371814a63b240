"""The tools of agents on any SPARQL endpoint: those of Wikidata in the words of RDF, with the shapes of its classes.

What a model reads of a tool is its docstring. Ids are prefixed names or IRIs between < and >, as results show them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from kbnav.errors import TellModel, UnknownId
from kbnav.knowledge.base import (
    ClassShape,
    Entity,
    KnowledgeBase,
    Profiled,
    SearchKind,
    Shaped,
    ShapeProperty,
    Share,
)
from kbnav.tools.context import Context, Observation, Shown, Thought
from kbnav.tools.show import (
    UNTYPED,
    counted,
    cut,
    entity_name,
    entry_text,
    incoming_text,
    kind_name,
    search_text,
    times,
    uses_text,
)
from kbnav.tools.wikidata import of_properties

_SHAPED = 25
"""Properties of a class that are shown."""
_SAMPLE, _SPAN, _NEAR = 40, 3, 0.7
"""Characters of a sample; least, middle and greatest; share of properties from which a class is like another."""


def search_entities(context: Context, thought: Thought, query: str, kind: SearchKind = "any") -> Observation:
    """Find things, classes and properties by name: "Marie Curie", "supplier". A whole question finds nothing.

    Args:
        query: A name, or one to four words.
        kind: "property" or "item" (things and classes): only those.
    """
    limit = context.shown.entities
    result = context.kb.search_entities(query, language=context.language, limit=limit, kind=kind)
    return Observation(search_text(result, query, context.shown), data=result)


def get_entry(context: Context, thought: Thought, entity_id: str, properties: str = "") -> Observation:
    """Read one thing: what is stated of it, cut to what matters for the question, and what comes in, counted.

    It shows which properties a thing really has. Of a class, it shows what the members have: properties, how many of
    them have each, and of which class or datatype the values are.

    Args:
        entity_id: The id of the thing or class, as results show it: a prefixed name, or an IRI between < and >.
        properties: Ids of properties to see whole, and nothing else, with spaces between.
    """
    entry = context.kb.get_entry(entity_id, language=context.language)
    wanted = [one for one in re.split(r"[\s,;]+", properties) if one]
    if wanted:
        kb = context.kb
        ids = [found for one in wanted for found in (isinstance(kb, Shaped) and kb.ids_in(one)) or [one]]
        return of_properties(entry, ids, context.shown)
    kept, usage = context.prune(entry, context.asked)
    around = _around(context, entry.entity.id)
    shape = [line for line in around if line.startswith(f"{entity_name(entry.entity)} is a class ")]
    lines = [entry_text(entry, kept, context.shown, about=shape), *(line for line in around if line not in shape)]
    return Observation("\n".join(lines), usage=usage)


def _around(context: Context, entity_id: str) -> list[str]:
    """What comes in, and of a class, what its members have; nothing where that cannot be counted soon."""
    kb = context.kb
    if not (context.shown.profiles and isinstance(kb, Profiled) and isinstance(kb, Shaped)):
        return []
    with suppress(TellModel):
        if entity_id in {share.entity.id for share in kb.classes(language=context.language)}:
            return [shape_text(kb.class_shape(entity_id, language=context.language))]
        return [line for line in [incoming_text(kb.incoming(entity_id, language=context.language))] if line]
    return []


def shapes_for(kb: KnowledgeBase, question: str, language: str, shown: Shown) -> str:
    """What a prompt is told of an endpoint: its classes with counts, and the shapes of those that the question names.

    Properties that it names, and none of these has, follow. Empty where the endpoint cannot say that soon.
    """
    if not isinstance(kb, Shaped):
        return ""
    try:
        classes = kb.classes(language=language)
    except TellModel:
        return ""
    few = classes[:_SHAPED]
    told = ", ".join(entity_name(one.entity) + (f" {one.count:,}" if one.count else "") for one in few)
    which = f"The {len(few)} of {len(classes)} classes" if len(classes) > len(few) else "All classes, those"
    named = "Below are at most four of them, and four properties, that the question names."
    lines = [f"{which} with most direct members first: {told}. {named}"] if few else []
    shapes = list[ClassShape]()
    for one in kb.classes_named(question, language=language):
        with suppress(TellModel, UnknownId):
            shape = kb.class_shape(one, language=language)
            lines.append(shape_text(shape, shapes))
            shapes.append(shape)
    lines += _properties_named(kb, question, language, shapes)
    return "\n\n".join(cut_lines(line, shown.whole_bytes) for line in lines)


def _properties_named(kb: Shaped, question: str, language: str, shapes: Sequence[ClassShape]) -> list[str]:
    """The properties that a question names and no shape has, with what they link."""
    seen = {one.property.id for shape in shapes for one in shape.properties}
    seen |= {share.entity.id for shape in shapes for share, _ in shape.incoming}
    lines = []
    try:
        for one in kb.properties_named(question, language=language):
            if one.id not in seen and isinstance(kb, Profiled):
                profile = kb.property_profile(one.id, language=language)
                lines.append(uses_text(profile, entity_name(one)).replace("\n", " "))
    except TellModel:
        return []
    return ["\n".join(lines)] if lines else []


def cut_lines(text: str, most: int) -> str:
    """The first lines of a text, up to ``most`` characters; what is left out is counted."""
    kept: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if sum(map(len, kept)) + len(line) > most:
            return "\n".join([*kept, f"… {len(lines) - number} more lines"])
        kept.append(line)
    return "\n".join(kept)


def shape_text(shape: ClassShape, others: Sequence[ClassShape] = ()) -> str:
    """The shape of a class: a line for each property; of one that is nearly another's, what differs."""
    members = counted(shape.members, shape.limit)
    below = f", {counted(shape.below, shape.limit)} more in subclasses" if shape.below else ""
    sampled = shape.sampled < min(shape.members or shape.below, shape.limit)
    of = f"the first {shape.sampled:,}" if sampled else "these"
    share = f"; properties, with the share of {of} that has each" if shape.properties else ""
    lines = [f"{entity_name(shape.entity)} is a class with {members} direct members{below}{share}:"]
    if shape.subclasses:
        told = ", ".join(f"{entity_name(one.entity)} {one.count:,}" for one in shape.subclasses)
        lines.append(f"  subclasses: {told}")
    if shape.things:
        lines.append(f"  all of them: {'; '.join(map(entity_name, shape.things))}")
    near = next((other for other in others if _alike(shape, other)), None)
    properties, incoming = shape.properties, shape.incoming
    if near:
        known, led = {_kind(one) for one in near.properties}, {_led(one) for one in near.incoming}
        properties = tuple(one for one in properties if _kind(one) not in known)
        incoming = tuple(one for one in incoming if _led(one) not in led)
        own = {one.property.id for one in shape.properties}
        lacks = [entity_name(one.property) for one in near.properties if one.property.id not in own]
        without = f", without {', '.join(lacks)}" if lacks else ""
        lines.append(f"  as {entity_name(near.entity)}{without}{', but:' if properties or incoming else ''}")
    lines += [_property_line(one, shape.sampled) for one in properties[:_SHAPED]]
    if len(properties) > _SHAPED:
        lines.append(f"  {len(properties) - _SHAPED} more properties")
    both = {one.property.id for one in shape.properties if one.symmetric}
    for one, source in incoming:
        if one.entity.id not in both:
            origin = entity_name(source) if source else UNTYPED["rdfs:Resource"]
            where = f" to {of}" if sampled else ""
            lines.append(f"  ^{entity_name(one.entity)}: comes in {times(one.count)}{where} from {origin}")
    return "\n".join(lines)


def _kind(one: ShapeProperty) -> tuple[str, ...]:
    return one.property.id, *sorted(of.entity.id for of in one.ranges)


def _led(one: tuple[Share, Entity | None]) -> tuple[str, str]:
    return one[0].entity.id, one[1].id if one[1] else ""


def _alike(shape: ClassShape, other: ClassShape) -> bool:
    """Whether two classes have most properties in common, with values of the same kinds."""
    own, theirs = {_kind(one) for one in shape.properties}, {_kind(one) for one in other.properties}
    return len(own & theirs) >= _NEAR * max(len(own), len(theirs), 1)


def _property_line(one: ShapeProperty, sampled: int) -> str:
    percent = f"{100 * one.have / sampled:.0f} %" if sampled else ""
    share = f"{one.have:,} of {sampled:,}" if percent in ("100 %", "0 %") else percent
    several = f", up to {one.most} each" if one.most > 1 else ""
    ranges = cut(" or ".join(kind_name(of.entity) for of in one.ranges), 200)
    both = ", both ways" if one.symmetric else ""
    values = [cut(value.text or value.id, _SAMPLE) for value in one.values]
    told = (
        f" {values[0]} to {values[2]}, middle {values[1]}"
        if len(values) == _SPAN
        else "".join(f", as {v}" for v in values)
    )
    return (
        f"  {entity_name(one.property)}: {'all' if one.have >= sampled else share}{several}"
        f"{f'; {ranges}' if ranges else ''}{both}{told}"
    )
