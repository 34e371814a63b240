"""A tool called as a run calls it, and tables for it."""

from kbnav.answers.tables import AnswerTable, Term
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox

QUESTION = "Which elements were discovered by Marie Curie?"


def use(context: Context, tool: str, **arguments: object) -> Observation:
    toolbox = Toolbox.for_kb(context.kb)
    thought, values = toolbox.validate(tool, {"thought": "why", **arguments})
    return toolbox.run(context, tool, thought, values)


def table(columns: str, *rows: tuple[object, ...], **labels: str) -> AnswerTable:
    terms = [
        tuple(
            None if cell is None else Term("uri" if str(cell).startswith("http") else "literal", str(cell))
            for cell in row
        )
        for row in rows
    ]
    return AnswerTable(tuple(columns.split()), tuple(terms), labels=labels)
