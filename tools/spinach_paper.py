"""The five actions of SPINACH's own agent (section 4.1), under kbnav's names."""

from __future__ import annotations

from kbnav.errors import BadArguments
from kbnav.tools import wikidata
from kbnav.tools.context import Context, Observation
from kbnav.tools.show import search_text


def search_entities(context: Context, thought: str, query: str) -> Observation:
    """Find entities and properties whose label or alias matches a text.

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: The text.
    """
    _need(thought)
    shown, named = context.shown, getattr(context.kb, "named", None)
    if named is None:
        raise BadArguments("This knowledge base cannot be searched by name.")
    found = named(query, language=context.language, items=shown.entities, properties=shown.properties)
    return Observation(search_text(found, query, shown))


def get_entry(context: Context, thought: str, entity_id: str) -> Observation:
    """Read the page of an entity: its statements with their qualifiers, cut to what matters for the question.

    Args:
        thought: Why this step comes next, in one or two sentences.
        entity_id: Its id, such as Q42.
    """
    _need(thought)
    return wikidata.get_entry(context, thought, entity_id)


def get_property_examples(context: Context, thought: str, property_id: str) -> Observation:
    """See a few statements that use a property.

    Args:
        thought: Why this step comes next, in one or two sentences.
        property_id: Its id, such as P31.
    """
    _need(thought)
    return wikidata.get_property_examples(context, thought, property_id)


def _need(thought: str) -> None:
    """Raise BadArguments where there is no thought: in the paper each step has one."""
    if not thought.strip():
        raise BadArguments(
            "The call was not run: say in `thought` what the last result showed, and why this comes next."
        )


def execute_query(context: Context, thought: str, query: str) -> Observation:
    """Run a SPARQL query and see its rows; of a large result, the first and the last five.

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: The whole SPARQL query.
    """
    _need(thought)
    return wikidata.run_query(context, query)


def finish(context: Context, thought: str) -> Observation:
    """End the work: the result of the query that was executed last is the answer.

    Args:
        thought: Why it answers the question.
    """
    _need(thought)
    return Observation("Finished.")


PAPER_TOOLS = (search_entities, get_entry, get_property_examples, execute_query, finish)
