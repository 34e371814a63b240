"""The two tools of SPINACH's own agent that are plainer than kbnav's (section 4.1): no diagnosis, and a bare end."""

from __future__ import annotations

from kbnav.tools.execute_query import run_query
from kbnav.tools.get_entry import get_entry
from kbnav.tools.get_property_examples import get_property_examples
from kbnav.tools.observation import Context, Observation
from kbnav.tools.search_entities import search_entities


def execute_query(context: Context, thought: str, query: str) -> Observation:
    """Run a SPARQL query and see its rows; of a large result, the first and the last five.

    Args:
        thought: Why this step comes next, in one or two sentences.
        query: The whole SPARQL query.
    """
    return run_query(context, query, diagnose=False)


def finish(context: Context, thought: str) -> Observation:
    """End the work: the result of the query that was executed last is the answer.

    Args:
        thought: Why it answers the question.
    """
    return Observation("Finished.")


PAPER_TOOLS = (search_entities, get_entry, get_property_examples, execute_query, finish)
"""The five actions of section 4.1, under kbnav's names."""
