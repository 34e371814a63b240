"""Whether an answer that is no, 0 or empty says rightly which kind of nothing it is: 100 questions made by rule.

    python -m benchmarks.absence MIRROR [--each 20] [--seed 1]

The questions are made from a mirror's triples, twenty of each kind:

- *not stated*: an item all of whose statements are in the mirror lacks a property that Wikidata lists for its class
  (P1963). As a list, a yes or no, a count, and over a second item.
- *asks wrongly*: a fact asked the other way round; a property that is listed for people, of what is none; a name where
  an item belongs; a value that is stated, but not of the best rank.
- *partial copy*: an item of which the mirror has a name and some triples only; an item that it does not have; members
  of a class that have a certain value, where no member here has it.
- *service failed*: facts of the mirror, asked of a query service that answers with errors, with nothing, or too late.
- *split graph*: facts on scholarly articles, asked of a Wikibase whose graph has none of them.

Each is asked by an agent whose model is a script: it runs the query and finishes. Printed are the kinds told, and every
question whose kind is not the one that it was made for.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from pathlib import Path
from unittest.mock import patch

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store, serialize

from kbnav.agents.spinach import spinach_with
from kbnav.answers.tables import AbsenceKind
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.wikidata.kb import WikidataKB
from kbnav.knowledge.wikidata.mirror.build import build_mirror
from kbnav.knowledge.wikidata.mirror.mirror import open_store
from kbnav.models.scripted import ScriptedModel, says
from kbnav.sessions.session import attempt
from kbnav.settings.model import Endpoints, Limits, Settings

WD, WDT = "http://www.wikidata.org/entity/", "http://www.wikidata.org/prop/direct/"
P, PS = "http://www.wikidata.org/prop/", "http://www.wikidata.org/prop/statement/"
STATED, RANK = NamedNode("http://wikiba.se/ontology#statements"), NamedNode("http://wikiba.se/ontology#rank")
LABEL = NamedNode("http://www.w3.org/2000/01/rdf-schema#label")
HUMAN, ARTICLE = "Q5", "Q13442814"
IMPATIENT = Limits(retries=0, query_timeout=2.0, query_seconds_per_minute=10_000.0, api_requests_per_minute=0)
"""Nothing here is anybody's service but ours."""


@dataclass(frozen=True)
class Made:
    """A question that has no answer: the kind of nothing that it was made for, and its query."""

    kind: AbsenceKind
    query: str


class Facts:
    """The triples of a mirror, by items and properties."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store, self.random = store, random.Random(seed)
        listed = self._pairs("P1963")
        self.listed: dict[str, list[str]] = defaultdict(list)
        for item_class, prop in listed:
            self.listed[item_class].append(prop)
        self.whole = self.shuffled(one for one in self._counted() if self.is_whole(one))

    def shuffled(self, items: Iterator[str] | Sequence[str]) -> list[str]:
        """In an order that the seed decides."""
        found = sorted(set(items))
        self.random.shuffle(found)
        return found

    def _pairs(self, prop: str) -> Iterator[tuple[str, str]]:
        for quad in self.store.quads_for_pattern(None, NamedNode(WDT + prop), None):
            if quad.object.value.startswith(WD):
                yield quad.subject.value.removeprefix(WD), quad.object.value.removeprefix(WD)

    def _counted(self) -> Iterator[str]:
        for quad in self.store.quads_for_pattern(None, STATED, None):
            name = quad.subject.value.removeprefix(WD)
            if name.startswith("Q"):
                yield name

    def is_whole(self, item: str) -> bool:
        """Whether the mirror has as many statements on an item as the item says that there are."""
        node = NamedNode(WD + item)
        stated = next((quad.object.value for quad in self.store.quads_for_pattern(node, STATED, None)), "")
        nodes = {
            quad.object.value
            for quad in self.store.quads_for_pattern(node, None, None)
            if quad.predicate.value.startswith(P) and quad.object.value.startswith(f"{WD}statement/")
        }
        return stated.isdigit() and len(nodes) >= int(stated) > 0

    def values(self, item: str, prop: str, role: str = WDT) -> list[str]:
        """Items that are values of a property; other values as an empty text."""
        quads = self.store.quads_for_pattern(NamedNode(WD + item), NamedNode(role + prop), None)
        return [one.object.value.removeprefix(WD) if one.object.value.startswith(WD) else "" for one in quads]

    def lacks(self, item: str, prop: str) -> bool:
        """Whether nothing is stated of an item by a property, of whatever rank."""
        return not self.values(item, prop) and not self.values(item, prop, P)

    def listed_for(self, item: str) -> list[str]:
        """The properties that are listed for an item's classes."""
        return self.shuffled([prop for one in self.values(item, "P31") for prop in self.listed.get(one, ())])

    def used(self, prop: str) -> bool:
        """Whether anything has the property."""
        return any(True for _ in self.store.quads_for_pattern(None, NamedNode(WDT + prop), None))

    def facts(self, props: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Items with a property and an item as its value, one of each property in turn."""
        for prop in props:
            pairs = [pair for pair in islice(self._pairs(prop), 2_000) if pair[0].startswith("Q")]
            if pairs:
                subject, value = self.random.choice(pairs)
                if value.startswith("Q"):
                    yield subject, prop, value


def not_stated(facts: Facts) -> Iterator[Made]:
    """Properties that are listed for the class of an item, which has none of them."""
    forms = cycle(
        [
            "SELECT ?x {{ wd:{e} wdt:{p} ?x }}",
            "ASK {{ wd:{e} wdt:{p} ?x }}",
            "SELECT (COUNT(?x) AS ?n) {{ wd:{e} wdt:{p} ?x }}",
            "SELECT ?x {{ wd:{s} wdt:{q} ?y . ?y wdt:{p} ?x }}",
        ]
    )
    for item in facts.whole:
        prop = next((one for one in facts.listed_for(item) if facts.lacks(item, one) and facts.used(one)), "")
        if not prop:
            continue
        leads = (quad for quad in facts.store.quads_for_pattern(None, None, NamedNode(WD + item)))
        lead = next(
            (
                (quad.subject.value.removeprefix(WD), quad.predicate.value.removeprefix(WDT))
                for quad in leads
                if quad.predicate.value.startswith(WDT)
                and facts.values(quad.subject.value.removeprefix(WD), quad.predicate.value.removeprefix(WDT)) == [item]
            ),
            None,
        )
        form = next(forms)
        if "{s}" in form and lead is None:
            form = next(forms)
        subject, by = lead or ("", "")
        yield Made("not stated", form.format(e=item, p=prop, s=subject, q=by))


def asks_wrongly(facts: Facts) -> Iterator[Made]:
    """Queries that do not fit what is there, in four ways in turn."""
    ways = [_turned(facts), _of_another_kind(facts), _by_name(facts), _of_lower_rank(facts)]
    for query in (query for four in zip(*ways, strict=False) for query in four):
        yield Made("asks wrongly", query)


def _properties(facts: Facts) -> list[str]:
    return facts.shuffled([prop for some in facts.listed.values() for prop in some])


def _turned(facts: Facts) -> Iterator[str]:
    for subject, prop, value in facts.facts(_properties(facts)):
        if facts.lacks(value, prop) and prop not in facts.listed_for(value) and not facts.lacks(subject, prop):
            yield f"SELECT ?x {{ wd:{value} wdt:{prop} ?x }}"


def _of_another_kind(facts: Facts) -> Iterator[str]:
    of_people = [prop for prop in facts.shuffled(facts.listed[HUMAN]) if facts.used(prop)]
    for item in facts.whole:
        classes = facts.values(item, "P31")
        if not classes or HUMAN in classes or not any(one in facts.listed for one in classes):
            continue
        for prop in of_people:
            if facts.lacks(item, prop) and prop not in facts.listed_for(item):
                yield f"ASK {{ wd:{item} wdt:{prop} ?x }}"
                break


def _by_name(facts: Facts) -> Iterator[str]:
    for _, prop, value in facts.facts(_properties(facts)):
        names = (quad.object for quad in facts.store.quads_for_pattern(NamedNode(WD + value), LABEL, None))
        name = next((one for one in names if isinstance(one, Literal) and one.language == "en"), None)
        if name is not None and name.value.replace(" ", "").isalnum():
            yield f'SELECT (COUNT(?x) AS ?n) {{ ?x wdt:{prop} "{name.value}"@en }}'


def _of_lower_rank(facts: Facts) -> Iterator[str]:
    for quad in facts.store.quads_for_pattern(None, RANK, None):
        if not quad.object.value.endswith(("NormalRank", "DeprecatedRank")):
            continue
        for of in facts.store.quads_for_pattern(None, None, quad.subject):
            item, prop = of.subject.value.removeprefix(WD), of.predicate.value.removeprefix(P)
            values = facts.store.quads_for_pattern(quad.subject, NamedNode(PS + prop), None)
            value = next((one.object.value.removeprefix(WD) for one in values), "")
            direct = facts.values(item, prop)
            if item.startswith("Q") and value.startswith("Q") and direct and value not in direct:
                yield f"ASK {{ wd:{item} wdt:{prop} wd:{value} }}"


def partial_copy(facts: Facts) -> Iterator[Made]:
    """Queries for what a copy lacks, in three ways in turn."""
    ways = [_of_stubs(facts), _of_unknown(facts), _of_classes(facts)]
    for query in (query for three in zip(*ways, strict=False) for query in three):
        yield Made("partial copy", query)


def _of_stubs(facts: Facts) -> Iterator[str]:
    members = facts.shuffled(
        [one for one, item_class in islice(facts._pairs("P31"), 60_000) if item_class in facts.listed]
    )
    for item in members:
        if not any(True for _ in facts.store.quads_for_pattern(NamedNode(WD + item), STATED, None)):
            prop = next((one for one in facts.listed_for(item) if facts.lacks(item, one) and facts.used(one)), "")
            if prop:
                yield f"SELECT ?x {{ wd:{item} wdt:{prop} ?x }}"


def _of_unknown(facts: Facts) -> Iterator[str]:
    of_people = [prop for prop in facts.shuffled(facts.listed[HUMAN]) if facts.used(prop)]
    for prop in cycle(of_people):
        node = NamedNode(f"{WD}Q{facts.random.randrange(1_000_000, 9_000_000)}")
        there = [
            *islice(facts.store.quads_for_pattern(node, None, None), 1),
            *islice(facts.store.quads_for_pattern(None, None, node), 1),
        ]
        if not there:
            yield f"SELECT ?x {{ wd:{node.value.removeprefix(WD)} wdt:{prop} ?x }}"


def _of_classes(facts: Facts) -> Iterator[str]:
    members: dict[str, set[str]] = defaultdict(set)
    for item, item_class in facts._pairs("P31"):
        members[item_class].add(item)
    large = facts.shuffled([one for one in facts.listed if len(members[one]) >= 20])
    for item_class in cycle(large):
        prop = facts.random.choice(facts.listed[item_class])
        owners = [(item, value) for item, value in facts._pairs(prop) if value.startswith("Q")]
        with_it = {value for item, value in owners if item in members[item_class]}
        others = sorted({value for _, value in owners} - with_it)
        if with_it and others:
            yield f"SELECT ?x {{ ?x wdt:P31 wd:{item_class} . ?x wdt:{prop} wd:{facts.random.choice(others)} }}"


def service_failed(facts: Facts) -> Iterator[Made]:
    """Facts of the mirror."""
    for subject, prop, _ in facts.facts(_properties(facts)):
        yield Made("service failed", f"SELECT ?x {{ wd:{subject} wdt:{prop} ?x }}")


def split_graph(facts: Facts) -> Iterator[Made]:
    """Facts on scholarly articles."""
    articles = facts.shuffled([item for item, item_class in facts._pairs("P31") if item_class == ARTICLE])
    ways = [[f"SELECT ?x {{ wd:{one} wdt:P1476 ?x }}" for one in articles]]
    for prop in ("P50", "P1433", "P921", "P2860"):
        values = facts.shuffled([value for one in articles for value in facts.values(one, prop) if value])
        ways.append([f"SELECT ?x {{ ?x wdt:{prop} wd:{value} }}" for value in values if value not in articles])
    for query in (query for some in zip(*ways, strict=False) for query in some):
        yield Made("split graph", query)


# Asking


@contextmanager
def failing() -> Iterator[str]:
    """A query service that answers with errors, nothing, half a result or too late, in turn; its address."""
    turn = cycle(["500", "503", "cut", "nothing", "late"])
    end = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.fail(next(turn))

        do_POST = do_GET

        def fail(self, how: str) -> None:
            if how == "late":
                end.wait(3)
            if how in ("nothing", "late"):
                return
            body = b'{"head": {"vars": ["x"]}, "results": {"bindings": [' if how == "cut" else b"out of order"
            self.send_response(200 if how == "cut" else int(how))
            self.send_header("Content-Type", "application/sparql-results+json" if how == "cut" else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/sparql"
    finally:
        end.set()
        server.shutdown()
        thread.join()
        server.server_close()


def without_articles(facts: Facts, queries: Sequence[Made], folder: Path) -> Path:
    """A mirror of what some questions name, without any article."""
    articles = {item for item, item_class in facts._pairs("P31") if item_class == ARTICLE}
    named = {word.removeprefix("wd:") for made in queries for word in made.query.split() if word.startswith("wd:")}
    quads: list[Quad] = []
    for item in sorted(named - articles):
        quads += facts.store.quads_for_pattern(NamedNode(WD + item), None, None)
    path = folder / "main.nt"
    path.write_bytes(serialize((quad.triple for quad in quads), format=RdfFormat.N_TRIPLES) or b"")
    build_mirror([path], folder / "main")
    return folder / "main"


def told(kb: KnowledgeBase, settings: Settings, made: Made) -> str:
    """The kind that an agent's answer tells; empty where it tells none."""
    runs = says(("execute_query", {"query": made.query}))
    ends = [says(("finish", {"no_answer": True})), says(("finish", {}))]
    replies = [runs, *(ends if made.query.startswith("SELECT ?") else reversed(ends)), *ends]
    agent = spinach_with(ScriptedModel(replies=replies), None, kb, settings)
    absence = attempt(agent, made.query).run.outcome.absence
    return absence.kind if absence else ""


def questions(facts: Facts, each: int) -> dict[AbsenceKind, list[Made]]:
    """So many of each kind, no two the same."""
    makers: list[Callable[[Facts], Iterator[Made]]] = [
        not_stated,
        asks_wrongly,
        partial_copy,
        service_failed,
        split_graph,
    ]
    found = (list(islice(dict.fromkeys(islice(maker(facts), 5 * each)), each)) for maker in makers)
    return {some[0].kind: some for some in found if some}


def measure(mirror: Path, each: int, seed: int) -> tuple[Counter[tuple[str, str]], list[tuple[Made, str]]]:
    """How often which kind was told of which, and the questions of which the wrong one was."""
    facts = Facts(open_store(mirror), seed)
    made = questions(facts, each)
    counts: Counter[tuple[str, str]] = Counter()
    wrong: list[tuple[Made, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Settings(home=Path(folder) / "home", language="en", limits=IMPATIENT)
        for kind, some in made.items():
            with _opened(kind, mirror, facts, some, home, Path(folder)) as kb:
                for one in some:
                    said = told(kb, home, one)
                    counts[kind, said] += 1
                    if said != kind:
                        wrong.append((one, said))
    return counts, wrong


@contextmanager
def _opened(
    kind: AbsenceKind, mirror: Path, facts: Facts, some: Sequence[Made], settings: Settings, folder: Path
) -> Iterator[KnowledgeBase]:
    """The knowledge base that questions of a kind are asked of."""
    if kind not in ("service failed", "split graph"):
        with open_kb(settings.model_copy(update={"kb": str(mirror), "limits": Limits()})) as kb:
            yield kb
        return
    path = mirror if kind == "service failed" else without_articles(facts, some, folder)
    with MirrorServer(path) as server, failing() as broken:
        other = {"sparql": broken} if kind == "service failed" else {}
        endpoints: Endpoints = server.endpoints.model_copy(update=other)
        kb = WikidataKB.by_http(settings.model_copy(update={"endpoints": endpoints}))
        try:
            with patch("kbnav.knowledge.wikidata.kb.is_split", lambda _: kind == "split graph"):
                yield kb
        finally:
            kb.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mirror", type=Path, nargs="?", default=Path("/tmp/slice"))
    parser.add_argument("--each", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts, wrong = measure(options.mirror, options.each, options.seed)
    for (kind, said), count in sorted(counts.items()):
        print(f"{kind:15} told as {said or 'nothing':15} {count:4}")
    right = sum(count for (kind, said), count in counts.items() if kind == said)
    print(f"right: {right} of {sum(counts.values())}")
    for one, said in wrong:
        print(f"  {one.kind}, told as {said or 'nothing'}: {one.query}")


if __name__ == "__main__":
    main()
