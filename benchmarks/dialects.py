"""How many of the query service's example queries can be said in each dialect, and give the same rows.

    python -m benchmarks.dialects [--mirror FOLDER] [--seconds N]

The queries are the 873 examples in the shared data; the mirror is built from the slice of Wikidata there unless one is
named. Each query runs as the mirror takes it, and once more from its form in each dialect, taken back to the mirror's:
what one rewriting loses, the other cannot bring back. Virtuoso's own functions for places run on Virtuoso only. A query
that takes longer than the limit, or ends in a LIMIT without an order, is not compared.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kbnav.errors import QueryRefused, QuerySyntaxError
from kbnav.knowledge.sparql.dialects import DIALECTS, Dialect
from kbnav.knowledge.sparql.rewriting import outer_limit, prepare
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.mirror import MIRROR, TRIPLES
from kbnav.knowledge.wikidata.mirror.pool import QueryError, QueryLimits, QueryPool
from kbnav.settings.model import Settings
from tests.knowledge.sparql.real import examples

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("KBNAV_TEST_DATA", ROOT.parent / "shared")) / "data"
MEMORY = 2 << 30


def main() -> None:
    """Build a mirror where none is named, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mirror", type=Path, help="a mirror that is there already; nothing is built then")
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of one query")
    options = parser.parse_args()
    queries = [one["text"] for one in examples(DATA)]
    with tempfile.TemporaryDirectory() as folder:
        mirror = options.mirror or Path(folder) / "mirror"
        if options.mirror is None:
            build_mirror(sorted((DATA / "wikidata-slice").glob("*.nt.gz")), mirror)
        pool = QueryPool(mirror / TRIPLES, QueryLimits(options.seconds, MEMORY, 1))
        report(queries, pool)
        pool.close()


def report(queries: Sequence[str], pool: QueryPool) -> None:
    """Print a line for each dialect."""
    own = [said(query, MIRROR) for query in queries]
    rows = [found(text, pool) if text and comparable(query) else None for query, text in zip(queries, own, strict=True)]
    answered = sum(one is not None for one in rows)
    filled = sum(bool(one) for one in rows if one is not None)
    print(f"{len(queries)} queries; as the mirror takes them {answered} are compared, {filled} of them have rows")
    print(f"{'dialect':10}{'said':>6}{'share':>8}{'run':>6}{'same rows':>11}{'of those with rows':>20}")
    for name, dialect in DIALECTS.items():
        forms = [said(query, dialect) for query in queries]
        runs = same = with_rows = 0
        for query, form, expected in zip(queries, forms, rows, strict=True):
            back = said(form, MIRROR) if form else None
            if expected is None or back is None:
                continue
            got = expected if back == said(query, MIRROR) else found(back, pool)
            if got is None:
                continue
            runs += 1
            same += got == expected
            with_rows += bool(expected)
            if got != expected:
                print(f"  other rows in {name}: {' '.join(query.split())[:150]}")
        count = sum(form is not None for form in forms)
        print(f"{name:10}{count:6}{count / len(queries):8.1%}{runs:6}{same:11}{with_rows:20}")


def said(query: str | None, dialect: Dialect) -> str | None:
    """The query in a dialect; None where it cannot be said."""
    try:
        return prepare(query, dialect, services=Settings().services).text if query else None
    except (QueryRefused, QuerySyntaxError):
        return None


def comparable(query: str) -> bool:
    """Whether two runs must give the same rows."""
    words = {token.text.upper() for token in tokenize(query) if token.kind == "word"}
    cut = outer_limit(query) is not None or "LIMIT" in words or "OFFSET" in words
    return not cut and not words & {"RAND", "UUID", "STRUUID", "BNODE", "NOW", "SAMPLE"}


def found(query: str, pool: QueryPool) -> Counter[str] | None:
    """The rows with how often each comes; None where there was no result in time."""
    try:
        document = json.loads(pool.query(query, "json", "json").body)
    except QueryError:
        return None
    if "boolean" in document:
        return Counter([str(document["boolean"])])
    return Counter(_row(row) for row in document["results"]["bindings"])


def _row(row: dict[str, dict[str, str]]) -> str:
    """A row as text: joined texts (GROUP_CONCAT) have no order, and blank nodes no names."""
    cells = {
        name: ["bnode"] if cell["type"] == "bnode" else [cell["type"], *sorted(cell["value"].split(", "))]
        for name, cell in row.items()
    }
    return json.dumps(cells, sort_keys=True)


if __name__ == "__main__":
    main()
