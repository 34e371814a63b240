"""Of how many rows of gold queries the statements are found that make them true, and what finding them costs.

    python -m benchmarks.provenance MIRROR [--datasets spinach-dev qald-10] [--rows 20]

Each gold query that has rows on the mirror is run, and evidence is looked for of its first rows. A row has evidence
where a statement, a triple or a chain of triples is named, or what was looked for and may not be there; the share of
rows with a reference is told apart: a partial copy has few. The shares by form follow, a line for each thing that a
query may have: most have several, so that a row counts in several lines.
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

import kbnav
from kbnav.answers.tables import AnswerTable
from kbnav.errors import KbnavError
from kbnav.evaluation.dataset_stats import query_shape
from kbnav.evaluation.datasets import load_dataset
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.evidence import provenance
from kbnav.knowledge.sparql.tokens import AGGREGATES

DATA = Path(os.environ.get("KBNAV_TEST_DATA", Path(__file__).resolve().parents[2] / "shared")) / "data" / "benchmarks"
PLAIN = "none of these"
FORMS = ("ASK", "aggregate", "GROUP BY", "FILTER", "OPTIONAL", "UNION", "MINUS", "path", "qualifier", PLAIN)
_AGGREGATE = re.compile(rf"\b({'|'.join(AGGREGATES)})\s*\(", re.IGNORECASE)
_QUALIFIER = re.compile(r"\b(pq|pqv|pqn):P\d")  # a prefix that is only declared is none


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirror")
    parser.add_argument("--datasets", nargs="+", default=["spinach-dev", "qald-10"])
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    with kbnav.open(options.mirror) as opened:
        for name in options.datasets:
            measure(name, opened.base, options.rows)


def measure(dataset: str, kb: KnowledgeBase, most: int) -> None:
    """One data set's gold queries."""
    rows = named = absent = referenced = 0
    forms: dict[str, list[list[bool]]] = defaultdict(list)
    seconds: list[float] = []
    failed: list[str] = []
    queries = 0
    for question in load_dataset(dataset, DATA).questions:
        if not question.query:
            continue
        try:
            table = kb.execute_query(question.query)
        except KbnavError:
            continue
        if not len(table) or table.boolean is False or zero(table):
            continue  # nothing is stated: there is no evidence to find
        queries += 1
        begin = perf_counter()
        found = provenance(kb, question.query, table, range(most))
        seconds.append(perf_counter() - begin)
        if found.failed or not found.rows:
            failed.append(f"{question.id}: {found.failed or 'nothing'}")
        shares = [bool(one or found.absent) for one in found.rows] or [False]
        rows += len(shares)
        named += sum(shares)
        absent += sum(not one for one in found.rows) if found.absent else 0
        referenced += sum(any(one.references for one in row) for row in found.rows)
        for form in forms_of(question.query):
            forms[form].append(shares)
        if not all(shares):
            print(f"  without: {question.id} {sum(shares)}/{len(shares)} {' '.join(question.query.split())[:150]}")
    share, sourced = 100 * named / max(rows, 1), 100 * referenced / max(rows, 1)
    print(f"{dataset}: {queries} queries with rows, {rows} rows looked at, {share:.1f} % with evidence,")
    print(f"  {absent} of them by what may not be there alone, {sourced:.1f} % with a reference;")
    print(f"  median {median(seconds):.2f} s, most {max(seconds):.2f} s")
    for form in FORMS:
        if of_form := [share for shares in forms[form] for share in shares]:
            told = f"{sum(of_form)} of {len(of_form)} rows with evidence, {100 * fmean(of_form):.1f} %"
            print(f"  {form:13} {len(forms[form]):4} queries, {told}")
    for line in failed:
        print("  failed:", line)


def zero(table: AnswerTable) -> bool:
    """Whether the answer is a single 0, or empty: a count of nothing, or the largest of nothing."""
    return len(table.rows) == 1 and {cell.value for cell in table.rows[0] if cell} <= {"0"}


def forms_of(query: str) -> list[str]:
    """What of ``FORMS`` a query has; ``path``: one of any length, or with a choice."""
    shape = query_shape(query)
    found = [name for name in FORMS if shape.clauses[name]]
    found += ["aggregate"] * bool(_AGGREGATE.search(query))
    found += ["path"] * any(triple.path.endswith(("*", "+")) or "|" in triple.path for triple in shape.triples)
    return [*dict.fromkeys(found), *(["qualifier"] if _QUALIFIER.search(query) else [])] or [PLAIN]


if __name__ == "__main__":
    main()
