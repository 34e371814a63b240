"""get_property_examples: how a property is used."""

from __future__ import annotations

from kbnav.errors import TellModel
from kbnav.knowledge.base import Profiled
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import examples_text, property_text


def get_property_examples(context: Context, thought: str, property_id: str) -> Observation:
    """See how a property is used: real statements, counts, qualifiers, units, the classes at both ends.

    Use it when its name does not say which way it points or what its values are, or before a query with its qualifiers.

    Args:
        thought: Why this step comes next.
        property_id: Its id, such as P31.
    """
    limit = context.shown.examples
    examples = context.kb.get_property_examples(property_id, language=context.language, limit=limit)
    text = examples_text(examples, property_id)
    return Observation(f"{text}\n{profile}" if (profile := _profile(context, property_id)) else text)


def _profile(context: Context, property_id: str) -> str:
    if not (context.shown.profiles and isinstance(context.kb, Profiled)):
        return ""
    try:
        profile = context.kb.property_profile(property_id, language=context.language)
    except TellModel as error:  # the examples are worth showing without it
        return f"(How it is used could not be counted: {error})"
    return property_text(profile, property_id.rpartition(":")[2].upper(), context.shown)
