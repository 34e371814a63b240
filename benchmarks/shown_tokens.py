"""What a model is shown, in tokens and by tool, for the actions of the 387 published SPINACH runs on QALD-10.

    python -m benchmarks.shown_tokens --mirror MIRROR [--data ../shared/data] [--save FILE] [--against FILE]

Every recorded look-up is done again on a mirror of the slice; every recorded query is answered with its recorded table.
``--save`` keeps the means, and ``--against`` prints those of an earlier version, or of another preset, beside them.
Tokens are estimated as the bytes of the text divided by four.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.replay_spinach_runs import TOOLS, RecordedTools, recorded_runs

from kbnav.agents.spinach import build_spinach
from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout, TellModel
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.runs.trajectory import FINISH, QUERY
from kbnav.settings.model import load_settings
from kbnav.tools.context import Context
from kbnav.tools.toolbox import Toolbox

BYTES_PER_TOKEN = 4
MOST_GROWTH = 0.1
BOUND = ("search_entities", "get_entry", QUERY)
"""The tools that may not grow by more than that."""


class WithRecordedTables:
    """A knowledge base whose queries are answered with the tables of one recorded run."""

    def __init__(self, kb: KnowledgeBase, tables: Mapping[str, AnswerTable]) -> None:
        self._kb, self._tables = kb, tables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kb, name)

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """The recorded table, labelled as far as the mirror has labels.

        Raises QueryTimeout for others, the probes of a diagnosis.
        """
        table = self._tables.get(query.strip())
        if table is None:
            raise QueryTimeout("nothing was recorded of this query")
        ids = [cell.entity_id for row in (*table.rows[:50], *table.rows[-50:]) for cell in row if cell]
        return replace(table, labels=self._kb.labels([one for one in ids if one], language=language))


def shown(
    recorded: Mapping[str, Any], kb: KnowledgeBase, toolbox: Toolbox, context: Context
) -> Iterator[tuple[str, str]]:
    """Tool and text of each action of a recorded run that a mirror can answer, and the text that was recorded."""
    tables = RecordedTools(recorded).tables
    context = replace(context, kb=WithRecordedTables(kb, tables), question=recorded["question"], tables={})
    seen = [recorded["question"]]
    for action in recorded["actions"]:
        name, argument = TOOLS[action["action_name"]]
        asked = action["action_argument"].strip()
        if name == FINISH or name not in toolbox.names or (name == QUERY and asked not in tables):
            continue
        context = replace(context, seen="\n".join(seen), number=len(seen))
        try:
            told = toolbox.run(
                context, name, action["thought"], toolbox.validate(name, {"thought": "-", argument: asked})[1]
            )
        except TellModel:
            continue
        seen.append(told.text)
        if told.ok:
            yield name, told.text


def means(recordings: Sequence[Mapping[str, Any]], mirror: str, preset: str) -> dict[str, tuple[int, float]]:
    """By tool: how many observations, and their tokens in the mean."""
    texts: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as home:
        options = {"preset": preset} if preset else {}
        settings = load_settings(kb=mirror, model="offline", language="en", home=Path(home), options=options)
        with open_kb(settings) as kb:
            agent = build_spinach(kb, settings)
            base = Context(kb, "", "en", agent.prune, agent.shown)
            for recorded in recordings:
                for name, text in shown(recorded, kb, agent.toolbox, base):
                    texts.setdefault(name, []).append(len(text.encode()))
    return {name: (len(sizes), fmean(sizes) / BYTES_PER_TOKEN) for name, sizes in texts.items()}


def main() -> None:
    """Print the table; exit 1 where the mean of searches, entries or results grew by more than a tenth."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--mirror", required=True, help="folder of a mirror of the slice")
    parser.add_argument("--limit", type=int, help="only the first runs")
    parser.add_argument("--preset", default="", help="of the agent, such as paper")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--against", type=Path)
    chosen = parser.parse_args()
    found = means(recorded_runs(chosen.data)[: chosen.limit], chosen.mirror, chosen.preset)
    before = json.loads(chosen.against.read_text()) if chosen.against else {}
    if chosen.save:
        chosen.save.write_text(json.dumps(found))
    print(f"{'tool':24} {'shown':>6} {'before':>8} {'tokens':>8} {'change':>8}")
    grown = False
    for name, (count, tokens) in found.items():
        was = before.get(name, (0, 0.0))[1]
        change = tokens / was - 1 if was else 0.0
        grown |= name in BOUND and change > MOST_GROWTH
        told = (f"{was:.1f}", f"{change:+.1%}") if was else ("", "")
        print(f"{name:24} {count:6} {told[0]:>8} {tokens:8.1f} {told[1]:>8}")
    raise SystemExit(grown)


if __name__ == "__main__":
    main()
