"""Results that were cut, looked at further."""

from dataclasses import replace

from kbnav.knowledge.base import KnowledgeBase
from kbnav.runs.trajectory import Call, Step
from kbnav.tools.context import Context, Shown
from kbnav.tools.show import rows_text
from tests.tools.using import table, use


class Labels:
    """A knowledge base that gives labels and nothing else."""

    def __init__(self, kb: KnowledgeBase) -> None:
        self.labels = kb.labels
        self.capabilities = kb.capabilities


def numbered(context: Context, query: str) -> Context:
    context.number = 3
    seen = use(context, "execute_query", query=query)
    step = Step(3, Call("execute_query", {"query": query}), seen.text, rows=seen.rows)
    return replace(context, number=4, results={3: step})


def test_a_long_result_is_paged_and_filtered_without_a_new_query(context):
    again = numbered(context, "SELECT ?n ?x { ?x wdt:P1086 ?n } ORDER BY ?n ?x")
    rows = again.tables[again.results[3].call.arguments["query"]].rows
    again = replace(again, kb=Labels(context.kb), shown=replace(again.shown, whole_rows=30))
    page = use(again, "show_rows", start=2).text.splitlines()
    assert page[:2] == ["Result 3:", "row\tn\tx"]
    assert page[2].startswith(f"2\t{rows[1][0].value}\t{rows[1][1].entity_id} (")
    assert len(page) == 2 + 30 + 1
    assert page[-1] == f"{len(rows)} rows; {len(rows) - 31} more after these."
    found = use(again, "show_rows", contains="POLONIUM").text.splitlines()
    assert found[2].endswith("\t84\tQ979 (polonium)")
    assert found[-1] == f"1 of {len(rows)} rows contain “POLONIUM”."
    assert use(again, "show_rows", result=9).text == "There is no result 9 with rows. Results with rows: 3."
    assert use(context, "show_rows").text == "No query has had rows yet."


def test_a_text_is_looked_for_in_whole_rows_and_not_in_what_is_shown_of_them():
    columns = " ".join(f"c{number}" for number in range(25))
    rows = [("x" * 500 + " needle", *range(24)), ("y", *range(23), "needle far out"), ("z", *range(24))]
    shown = rows_text(table(columns, *rows), Shown(cell=40), start=1, contains="NEEDLE").splitlines()
    assert [line.split("\t")[0] for line in shown[1:-1]] == ["1", "2"]
    assert max(map(len, shown)) < 200


def test_a_query_run_once_more_is_not_sent_but_makes_its_result_the_last(context):
    again = numbered(context, "SELECT ?x { ?x wdt:P61 wd:Q7186 }")
    again = replace(again, kb=Labels(context.kb), shown=replace(again.shown, whole_rows=30))
    told = use(again, "execute_query", query=" SELECT ?x  { ?x wdt:P61 wd:Q7186 }")
    assert (told.rows, told.text.split(". ")[0]) == (2, "This is result 3 again")
