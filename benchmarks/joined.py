"""Questions of two knowledge bases together: with ``join_results``, and with values copied by hand from what is shown.

    python -m benchmarks.joined [--seed 1]

Two made graphs: a catalogue of 400 suppliers, each with its town's name or number, and a registry of 120 towns. Of 40
questions, ten are of each graph alone and twenty need both, joined by name or by number, with 1 to about 300 rows to
take over. A script in place of a model asks each: it always writes the right query, so that what differs is the tool.
Without it, the script copies values into VALUES, as a model must: those that the result shows, or all, which it first
reads by ``show_rows``. Gold answers are made from the data in Python. Printed are EM, actions, the characters that the
script wrote and was shown for a question of both, and what a paired test says.
"""

from __future__ import annotations

import argparse
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import requests

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, write_plainly
from kbnav.agents.common.state import Reply, State
from kbnav.evaluation.metrics.statistics import paired_test
from kbnav.knowledge.open import open_kb
from kbnav.runs.trajectory import Call
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.context import Context
from kbnav.tools.several import several_tools
from kbnav.tools.toolbox import Toolbox

C, R = "http://catalogue.example/", "http://registry.example/"
JOINS = {"name": f"?town <{R}name> ?place .", "number": f"?town <{R}number> ?place ."}


@dataclass(frozen=True)
class Question:
    """A question by the queries that answer it; ``second`` takes up the rows of ``first``, where both are needed."""

    first: str
    kb: str
    gold: frozenset[str]
    second: str = ""


def made(seed: int) -> tuple[str, str, list[Question]]:
    """The catalogue and the registry as Turtle, and the questions."""
    draw = random.Random(seed)
    towns = [(f"Town {n}", str(1_000 + n), draw.randrange(1, 200) * 1_000) for n in range(120)]
    kinds = [f"kind{n}" for n in range(10)]
    suppliers = []
    for n in range(400):
        # Kinds of very different sizes, so that results of all lengths are taken over.
        kind = kinds[min(int(draw.expovariate(0.5)), 9)]
        suppliers.append((f"{C}s{n}", kind, draw.choice(towns)))
    triples = [
        f'<{one}> <{C}kind> "{kind}" .\n<{one}> <{C}town> "{town[0]}" .\n<{one}> <{C}code> "{town[1]}" .\n'
        for one, kind, town in suppliers
    ]
    registry = [
        f'<{R}{number}> <{R}name> "{name}" .\n<{R}{number}> <{R}number> "{number}" .\n'
        f"<{R}{number}> <{R}people> {people} .\n"
        for name, number, people in towns
    ]
    questions = [
        Question(
            f'SELECT ?s {{ ?s <{C}kind> "{kind}" }}', "catalogue", frozenset(s for s, of, _ in suppliers if of == kind)
        )
        for kind in kinds
    ]
    for least in range(20_000, 200_000, 18_000):
        large = frozenset(f"{R}{number}" for _, number, people in towns if people > least)
        questions.append(Question(f"SELECT ?t {{ ?t <{R}people> ?n FILTER(?n > {least}) }}", "registry", large))
    for kind in kinds:
        for by, link in (("name", "town"), ("number", "code")):
            least = 100_000
            gold = frozenset(one for one, of, town in suppliers if of == kind and town[2] > least)
            first = f'SELECT ?s ?place {{ ?s <{C}kind> "{kind}" ; <{C}{link}> ?place }}'
            second = f"SELECT DISTINCT ?s {{ {JOINS[by]} ?town <{R}people> ?n FILTER(?n > {least}) }}"
            questions.append(Question(first, "catalogue", gold, second))
    return "".join(triples), "".join(registry), questions


class Script:
    """Asks a question's first query, then the second with the first's rows, taken over in the way ``how``."""

    def __init__(self, question: Question, how: str) -> None:
        self.question, self.how, self.characters, self.actions = question, how, 0, 0

    def __call__(self, state: State, context: Context) -> Reply:  # noqa: ARG002, D102 - a policy
        path = state["path"]
        self.characters += len(path[-1].observation) if path else 0
        if not path:
            return self._call("execute_query", query=self.question.first, kb=self.question.kb)
        if not self.question.second or path[-1].call.arguments.get("kb") == "registry":
            return self._call("finish")
        if self.how == "join_results":
            return self._call("join_results", query=self.question.second, result=1, kb="registry")
        start = 1 + 50 * (len(path) - 1)
        if self.how == "all by hand" and path[0].rows > 50 and start <= path[0].rows:
            return self._call("show_rows", result=1, start=start)
        seen = "\n".join(step.observation for step in path)
        rows = dict.fromkeys(re.findall(r"^(?:\d+\t)?catalogue:(s\d+)\t(.+)$", seen, re.MULTILINE))
        values = " ".join(f'(<{C}{one}> "{place}")' for one, place in rows)
        query = self.question.second.replace("{", f"{{ VALUES (?s ?place) {{ {values} }}", 1)
        return self._call("execute_query", query=query, kb="registry")

    def _call(self, tool: str, **arguments: object) -> Reply:
        self.actions += 1
        self.characters += sum(len(str(one)) for one in arguments.values())
        return Reply([Call(tool, arguments, "As it was written.")])


def asked(questions: Sequence[Question], settings: Settings, how: str) -> list[tuple[float, int, int]]:
    """EM of each question, its actions, and the characters that were written and shown."""
    found = []
    with open_kb(settings) as kb:
        toolbox = Toolbox.for_kb(kb, several_tools(kb))
        for question in questions:
            script = Script(question, how)
            agent = Agent("script", "none", kb, settings, script, toolbox, QueryEnding(write_plainly))
            table = ask(agent, "Which?").outcome.table
            rows = {row[0].value for row in table.rows if row[0]} if table else set()
            found.append((100.0 * (rows == question.gold), script.actions, script.characters))
    return found


def served(file: Path, stack: ExitStack) -> str:
    """The address of a server of a file; it ends with ``stack``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "kbnav", "sparql", "serve", str(file), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    url = f"http://127.0.0.1:{port}/sparql"
    for _ in range(300):
        try:
            if requests.get(url, params={"query": "ASK {}"}, timeout=5).ok:
                return url
        except requests.ConnectionError:
            time.sleep(0.2)
    raise SystemExit(f"{file} was not served")


def main() -> None:
    """Ask all questions in both ways and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        catalogue, registry, questions = made(options.seed)
        sparql = {}
        for name, text in (("catalogue", catalogue), ("registry", registry)):
            file = Path(folder) / f"{name}.ttl"
            file.write_text(text, encoding="utf-8")
            sparql[name] = {"url": served(file, stack)}
        settings = Settings(kb=["catalogue", "registry"], sparql=sparql, home=Path(folder), checks=False)
        ways = ("what is shown", "all by hand", "join_results")
        runs = {how: asked(questions, settings, how) for how in ways}
    both = [place for place, one in enumerate(questions) if one.second]
    print("| rows are taken over | EM, all 40 | EM of both, 20 | actions | characters |")
    print("|---|---|---|---|---|")
    for how, scores in runs.items():
        exact, actions, characters = (sum(scores[place][field] for place in both) / len(both) for field in range(3))
        every = sum(score[0] for score in scores) / len(scores)
        print(f"| {how} | {every:.1f} | {exact:.1f} | {actions:.1f} | {characters:,.0f} |")
    for how in ways[:2]:
        pair = [[score[0] for score in runs[one]] for one in (how, "join_results")]
        print(f"join_results beside {how}: {paired_test(*pair)}")


if __name__ == "__main__":
    main()
