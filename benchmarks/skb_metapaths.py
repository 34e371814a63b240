"""How well the SKB agent's offline policy answers metapath questions on Hetionet.

The questions follow the relational templates of STaRK-Prime (STaRK, appendix B.3), put into the types and relations
that the shared part of Hetionet has. Names are drawn at random, with a fixed seed, among those with 1 to 20 answers, as
STaRK-Prime's questions have; answers are counted from the edges' file without the package.

The second table asks the same in words that are nearer to STaRK-Prime's and that the schema does not have, such as
"drug" where it has "compound".

    python -m benchmarks.skb_metapaths [--data ../shared/data] [--skb hetionet.skb] [--each 2] [--show]
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kbnav.agents.common.agent import Agent, build_agent
from kbnav.evaluation.metrics.ranking import ranking_scores, ranks_in_lists
from kbnav.knowledge.open import open_kb
from kbnav.sessions.session import ask
from kbnav.settings.model import load_settings

METRICS = ("hit@1", "hit@5", "recall@20", "mrr")
MOST_ANSWERS = 20
DRAWS = 2_000
OTHER_WORDS = {
    "compound": "drug",
    "binds": "targets",
    "bound": "targeted",
    "participate in": "interact with",
    "has participation of": "interacts with",
    "symptom": "phenotype",
    "treats": "is indicated for",
    "treat": "are indicated for",
    "treated": "with an indication",
    "palliated": "eased",
    "resemble": "are similar to",
}
Nodes = frozenset[str]


class Edges:
    """The edges' file, read for its own sake: ends by relation and direction."""

    def __init__(self, data: Path) -> None:
        self._out: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._in: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        with gzip.open(data / "hetionet" / "edges.tsv.gz", "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file, delimiter="\t")
            next(rows)
            for source, relation, target, *_ in rows:
                self._out[relation, source].add(target)
                self._in[relation, target].add(source)
        with gzip.open(data / "hetionet" / "nodes.jsonl.gz", "rt", encoding="utf-8") as file:
            self.names = {record["id"]: record["name"] for record in map(json.loads, file)}

    def to(self, relation: str, nodes: Iterable[str]) -> Nodes:
        """Where a relation leads from any of some nodes."""
        return frozenset().union(*(self._out.get((relation, node), ()) for node in nodes))

    def of(self, relation: str, nodes: Iterable[str]) -> Nodes:
        """Where a relation comes from to any of some nodes."""
        return frozenset().union(*(self._in.get((relation, node), ()) for node in nodes))

    def both(self, relation: str, nodes: Sequence[str]) -> Nodes:
        """Either way, within one type."""
        return self.to(relation, nodes) | self.of(relation, nodes)

    def starts(self, kind: str) -> list[str]:
        """All nodes of a type."""
        return sorted(node for node in self.names if node.startswith(f"{kind}::"))


@dataclass(frozen=True)
class Template:
    """A question with ``{0}`` and ``{1}`` for names of nodes of ``kinds``; ``answers`` says which nodes answer it."""

    prime: str
    """STaRK-Prime's metapath that it stands for."""
    text: str
    kinds: tuple[str, ...]
    answers: Callable[..., Nodes]

    def ask(self, names: Iterable[str], words: Mapping[str, str] | None = None) -> str:
        """The question about some names, with other words for some of the schema's."""
        text = self.text
        for word, other in (words or {}).items():
            text = re.sub(rf"\b{word}(s?)\b", rf"{other}\1", text)
        return text.format(*names)


CC, MF, BP = "Cellular Component", "Molecular Function", "Biological Process"
TEMPLATES = (
    Template(
        "anatomy - gene present, gene absent - anatomy",
        "Which genes are upregulated in {0} and downregulated in {1}?",
        ("Disease", "Disease"),
        lambda e, a, b: e.to("DuG", [a]) & e.to("DdG", [b]),
    ),
    Template(
        "anatomy - gene absent, gene absent - anatomy",
        "Which genes are downregulated in both {0} and {1}?",
        ("Disease", "Disease"),
        lambda e, a, b: e.to("DdG", [a]) & e.to("DdG", [b]),
    ),
    Template(
        "drug - gene - drug (shared carriers)",
        "Which genes are bound by both {0} and {1}?",
        ("Compound", "Compound"),
        lambda e, a, b: e.to("CbG", [a]) & e.to("CbG", [b]),
    ),
    Template(
        "drug - disease - gene/protein",
        "Identify diseases associated with {0} and treated by {1}.",
        ("Gene", "Compound"),
        lambda e, a, b: e.of("DaG", [a]) & e.to("CtD", [b]),
    ),
    Template(
        "drug - gene/protein - anatomy",
        "Which anatomy expresses the genes that are bound by {0}?",
        ("Compound",),
        lambda e, a: e.of("AeG", e.to("CbG", [a])),
    ),
    Template(
        "drug - gene/protein - drug",
        "What is the compound that binds a common gene with {0}?",
        ("Compound",),
        lambda e, a: e.of("CbG", e.to("CbG", [a])) - {a},
    ),
    Template(
        "cellular_component - gene/protein - drug",
        "What is the compound that binds genes that participate in {0}?",
        (CC,),
        lambda e, a: e.of("CbG", e.of("GpCC", [a])),
    ),
    Template(
        "molecular_function - gene/protein - drug",
        "What compound binds the genes that participate in {0}?",
        (MF,),
        lambda e, a: e.of("CbG", e.of("GpMF", [a])),
    ),
    Template(
        "disease - drug - disease",
        "What disease is palliated by the compounds that treat {0}?",
        ("Disease",),
        lambda e, a: e.to("CpD", e.of("CtD", [a])) - {a},
    ),
    Template(
        "disease - disease - effect/phenotype",
        "What symptom is present in the diseases that resemble {0}?",
        ("Disease",),
        lambda e, a: e.to("DpS", e.both("DrD", [a])),
    ),
    Template(
        "pathway - gene/protein - gene/protein",
        "What gene interacts with the genes that participate in {0}?",
        ("Pathway",),
        lambda e, a: e.both("GiG", e.of("GpPW", [a])),
    ),
    Template(
        "effect/phenotype - gene/protein - biological_process",
        "What biological process has participation of the genes that {0} is associated with?",
        ("Disease",),
        lambda e, a: e.to("GpBP", e.to("DaG", [a])),
    ),
    Template(
        "effect/phenotype - disease, no drug",
        "Find diseases that present {0} and that no compound treats.",
        ("Symptom",),
        lambda e, a: frozenset(d for d in e.of("DpS", [a]) if not e.of("CtD", [d])),
    ),
    Template(
        "drug - disease - drug and drug - drug",
        "Find compounds that resemble {0} and treat the same disease.",
        ("Compound",),
        lambda e, a: (e.both("CrC", [a]) & e.of("CtD", e.to("CtD", [a]))) - {a},
    ),
    Template(
        "gene - disease - gene and gene - gene",
        "Find genes that interact with {0} and are associated with the same disease.",
        ("Gene",),
        lambda e, a: (e.both("GiG", [a]) & e.to("DaG", e.of("DaG", [a]))) - {a},
    ),
)


@dataclass(frozen=True)
class Question:
    """A question with the ids of its answers."""

    template: Template
    names: tuple[str, ...]
    answers: Nodes


def questions(edges: Edges, each: int, seed: int = 1) -> list[Question]:
    """``each`` questions of every template, drawn at random among those with 1 to 20 answers."""
    chance = random.Random(seed)
    found: list[Question] = []
    for template in TEMPLATES:
        starts = [edges.starts(kind) for kind in template.kinds]
        taken: set[tuple[str, ...]] = set()
        for _ in range(DRAWS * each):
            drawn = [chance.choice(nodes) for nodes in starts]
            answers = template.answers(edges, *drawn)
            names = tuple(edges.names[node] for node in drawn)
            if len(set(drawn)) == len(drawn) and 1 <= len(answers) <= MOST_ANSWERS and names not in taken:
                taken.add(names)
                found.append(Question(template, names, answers))
            if len(taken) == each:
                break
    return found


@contextmanager
def opened(skb: Path | None, data: Path) -> Iterator[Agent]:
    """The agent on an SKB of Hetionet, built in a temporary folder, without vectors, where none is given."""
    with tempfile.TemporaryDirectory() as work:
        if skb is None:
            from kbnav.knowledge.skb.build import Options, build
            from kbnav.knowledge.skb.importers.tables import TableSource

            skb, folder = Path(work) / "hetionet.skb", data / "hetionet"
            source = TableSource([folder / "nodes.jsonl.gz"], [folder / "edges.tsv.gz"])
            build(source, skb, Options(vectors=False))
        settings = load_settings(kb=str(skb), model="offline", language="en", home=Path(work) / "home")
        with open_kb(settings) as kb:
            yield build_agent(kb, settings)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--skb", type=Path, help="an SKB built from Hetionet's files")
    parser.add_argument("--each", type=int, default=2, help="questions of each template")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print each question with its scores")
    chosen = parser.parse_args()
    asked = questions(Edges(chosen.data), chosen.each, chosen.seed)
    with opened(chosen.skb, chosen.data) as agent:
        for words, said in ((None, "in the words of the schema"), (OTHER_WORDS, "in other words")):
            print(f"\n{said}")
            print_table(agent, asked, words, show=chosen.show)


def print_table(agent: Agent, asked: Sequence[Question], words: Mapping[str, str] | None, *, show: bool) -> None:
    """Ask all questions, and print the scores of each template in percent."""
    texts = [question.template.ask(question.names, words) for question in asked]
    began = time.perf_counter()
    runs = [ask(agent, text) for text in texts]
    seconds = time.perf_counter() - began
    lists = [run.outcome.ranking.ids if run.outcome.ranking else [] for run in runs]
    scores = ranking_scores(ranks_in_lists(lists, [question.answers for question in asked]), METRICS)
    if show:
        for number, question in enumerate(asked):
            values = " ".join(f"{scores[name][number]:.2f}" for name in METRICS)
            print(f"{values}  {len(question.answers):2} answers, {len(lists[number]):2} given  {texts[number]}")
    print(f"{'template of STaRK-Prime':55} {'questions':>9} " + " ".join(f"{name:>9}" for name in METRICS))
    for template in TEMPLATES:
        places = [number for number, question in enumerate(asked) if question.template is template]
        if places:
            print(line(template.prime, places, scores))
    print(line("all", range(len(asked)), scores))
    print(f"{fmean(len(run.steps) for run in runs):.1f} actions and {seconds / len(runs):.2f} s a question")


def line(name: str, places: Sequence[int], scores: Mapping[str, Sequence[float]]) -> str:
    """One row of the table, in percent."""
    values = " ".join(f"{100 * fmean(scores[metric][place] for place in places):9.1f}" for metric in METRICS)
    return f"{name:55} {len(places):9} {values}"


if __name__ == "__main__":
    main()
