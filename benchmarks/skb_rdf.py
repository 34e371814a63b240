"""Build the triples of an SKB, and query them as they are and optimised.

    python -m benchmarks.skb_rdf SKB

``Store.optimize`` puts all files of the store in one order: that takes time in a build, and queries that read
much gain.
Each query runs three times; the quickest is printed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks._timing import built, seconds
from pyoxigraph import Store

from kbnav.knowledge.skb import rdf
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.sparql.vocabulary import SKB_PREFIXES, add_prefixes


def main() -> None:
    """Print how long building, optimising and queries take."""
    skb = SKB.open(Path(sys.argv[1]))
    names = ([kind.name for kind in skb.meta.types], [relation.name for relation in skb.meta.relations])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        built("triples", lambda: rdf.build(skb.nodes, skb.graph, *names, folder), folder)
        query(folder, queries(skb))
        built("the same, optimised", Store(made).optimize, folder)
        query(folder, queries(skb))


def queries(skb: SKB) -> dict[str, str]:
    """Queries that name a node, and some that read whole relations."""
    first, second = (f"rel:{name}" for name in rdf.local_names([relation.name for relation in skb.meta.relations])[:2])
    node = f"node:{rdf.local_name(skb.nodes.ids[len(skb.nodes) // 2])}"
    return {
        "edges of a node": f"SELECT ?p ?o {{ {node} ?p ?o }}",
        "edges to a node": f"SELECT ?s ?p {{ ?s ?p {node} }}",
        "two hops": f"SELECT DISTINCT ?o {{ {node} ?p ?x . ?x ?q ?o }} LIMIT 10000",
        "edges of a relation, counted": f"SELECT (COUNT(*) AS ?n) {{ ?s {first} ?o }}",
        "the nodes with most edges of a relation": (
            f"SELECT ?s (COUNT(?o) AS ?n) {{ ?s {second} ?o }} GROUP BY ?s ORDER BY DESC(?n) LIMIT 10"
        ),
    }


def query(folder: Path, texts: dict[str, str]) -> None:
    """Run each query on the store."""
    store = Store.read_only(str(folder))
    for name, text in texts.items():
        whole = add_prefixes(text, SKB_PREFIXES)
        print(
            f"    {name}: {1e3 * min(seconds(lambda whole=whole: list(store.query(whole))) for _ in range(3)):.1f} ms"
        )


if __name__ == "__main__":
    main()
