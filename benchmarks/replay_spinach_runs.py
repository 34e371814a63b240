"""The 387 published SPINACH runs on QALD-10, put through kbnav's state machine with their recorded observations.

    python -m benchmarks.replay_spinach_runs [--data ../shared/data]

No model and no network: a recorded run's actions are asked for one after another, as the model asked for them, and each
is answered with what was recorded. Printed is what the rules for repeats and premature stops do to them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, Writer, write_plainly
from kbnav.agents.common.policy import ChatPolicy
from kbnav.answers.tables import AnswerTable
from kbnav.knowledge.sparql.rewriting import drop_probe_limit
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import FINISH, QUERY, Run, Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import WIKIDATA_TOOLS, Toolbox

TOOLS = {
    "search_wikidata": ("search_entities", "query"),
    "get_wikidata_entry": ("get_entry", "entity_id"),
    "get_property_examples": ("get_property_examples", "property_id"),
    "execute_sparql": (QUERY, "query"),
    "stop": (FINISH, ""),
}
EMPTY = "Query returned empty result."


class RecordedTools(Toolbox):
    """The real tools' schemas and checks, with the observations of one recorded run."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        super().__init__(WIKIDATA_TOOLS, frozenset({"search_entities", "get_entry", "get_property_examples", QUERY}))
        self.tables = {
            item["sparql"].strip(): table_of(item["execution_result"]) for item in recorded["generated_sparqls"]
        }
        self._observed: dict[tuple[str, str], str] = {}
        for action in recorded["actions"]:
            key = (TOOLS[action["action_name"]][0], action["action_argument"].strip())
            self._observed.setdefault(key, action["observation"] or "")

    def run(self, context: Context, name: str, thought: str, arguments: Mapping[str, Any]) -> Observation:  # noqa: ARG002
        """What was recorded for this action."""
        asked = "" if name == FINISH else str(next(iter(arguments.values()))).strip()
        text = self._observed[name, asked]
        if name != QUERY:
            return Observation(text)
        table = self.tables.get(asked)
        rows = len(table) if table is not None else _rows_of_text(text)
        return Observation(text, ok=rows is not None, rows=rows)


class RecordedKB:
    """Gives the recorded tables; nothing else is asked of it, because the tools above answer from the recording."""

    name = "recorded"

    def __init__(self, tools: RecordedTools) -> None:
        self._tools = tools

    def state(self) -> dict[str, Any]:
        """Nothing to know."""
        return {"name": self.name}

    def labels(self, ids: Sequence[str], *, language: str = "en") -> dict[str, str]:  # noqa: ARG002
        """None were recorded."""
        return {}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:  # noqa: ARG002
        """The recorded table of a query, also without the LIMIT it was asked with."""
        for recorded, table in self._tools.tables.items():
            if query.strip() in (recorded, drop_probe_limit(recorded, "").strip()):
                return table
        return AnswerTable()


def table_of(result: Any, labels: Mapping[str, str] | None = None) -> AnswerTable:
    """A recorded result as a table: a truth value, or bindings."""
    if isinstance(result, bool):
        return AnswerTable(boolean=result)
    columns = list(dict.fromkeys(name for row in result for name in row))
    table = AnswerTable.from_sparql_json({"head": {"vars": columns}, "results": {"bindings": result}})
    return replace(table, labels=labels or {})


def _rows_of_text(text: str) -> int | None:
    """Rows of a query whose result was recorded as text only: empty, an error or nothing at all count as no result."""
    if text == EMPTY:
        return 0
    return len(text.splitlines()) - 1 if text and "error" not in text.casefold() else None


def recorded_runs(data: Path) -> list[dict[str, Any]]:
    """The published trajectories; where they are not in the folder, the program ends and says so."""
    path = data / "spinach-qald10-runs" / "trajectories.json.gz"
    if not path.is_file():
        raise SystemExit(f"{path} is missing: --data names the folder (docs/benchmarks.md)")
    with gzip.open(path) as file:
        return json.load(file)  # type: ignore[no-any-return]


def script(recorded: Mapping[str, Any]) -> ScriptedModel:
    """A model that asks for the actions of one recorded run."""
    replies = []
    for action in recorded["actions"]:
        name, argument = TOOLS[action["action_name"]]
        arguments = {argument: action["action_argument"]} if argument else {}
        replies.append(says((name, arguments), thought=action["thought"]))
    return ScriptedModel(replies=replies)


def replay(
    recorded: Mapping[str, Any], home: Path, model: ScriptedModel | None = None, write: Writer = write_plainly
) -> Run:
    """Put one recorded run through the state machine."""
    settings = Settings(home=home, model="recorded", language="en")
    tools = RecordedTools(recorded)
    agent = Agent(
        name="spinach",
        model="recorded",
        kb=RecordedKB(tools),  # type: ignore[arg-type]
        settings=settings,
        policy=ChatPolicy(model or script(recorded), tools, "spinach/policy.md", settings.budget),
        toolbox=tools,
        ending=QueryEnding(write, last_executed=True),
        prune=lambda entry, question: (entry, Usage()),  # noqa: ARG005
    )
    return ask(agent, recorded["question"])


def repeats(recorded: Mapping[str, Any], *, literally: bool = False) -> Iterator[int]:
    """How far back, in actions, each repeat's earlier action lies; white space counts only if ``literally``."""
    last: dict[tuple[str, str], int] = {}
    for index, action in enumerate(recorded["actions"]):
        argument = action["action_argument"]
        key = (action["action_name"], argument if literally else " ".join(argument.split()))
        if key in last:
            yield index - last[key]
        last[key] = index


def stopped_without_rows(recorded: Mapping[str, Any]) -> bool:
    """Whether the recording ends by stop although its last query had no rows, or there was none."""
    if recorded["actions"][-1]["action_name"] != "stop":
        return False
    observed = [action["observation"] for action in recorded["actions"] if action["action_name"] == "execute_sparql"]
    return not observed or observed[-1] in (None, "", EMPTY)


def count(recordings: Sequence[Mapping[str, Any]], home: Path) -> Counter[str]:
    """Replay every recording and count what happened."""
    counts: Counter[str] = Counter()
    for recorded in recordings:
        run = replay(recorded, home)
        far = list(repeats(recorded))
        counts["recorded runs"] += 1
        counts["recorded actions"] += len(recorded["actions"])
        # A recording that breaks off has no more calls to give, and a model that calls no tool is given up.
        counts["runs that ended"] += run.outcome.stop in ("finish", "step budget", "action budget", "refusal")
        counts[f"ended: {run.outcome.status}, by {run.outcome.stop}"] += 1
        counts["actions that repeat an earlier one of their recording"] += len(far)
        counts["  of these, one of the four before"] += sum(distance <= 4 for distance in far)
        exact = list(repeats(recorded, literally=True))
        counts["actions that repeat an earlier one to the letter"] += len(exact)
        counts["  of these too, one of the four before"] += sum(distance <= 4 for distance in exact)
        counts["recordings with a repeat"] += bool(far)
        counts["  of these, rolled back"] += bool(far) and any(step.dropped == "repeat" for step in run.discarded)
        counts["stops without rows in the recordings"] += stopped_without_rows(recorded)
        premature = any(step.dropped == "premature finish" for step in run.discarded)
        counts["  of these, dropped and rolled back"] += stopped_without_rows(recorded) and premature
        counts["recorded actions refused as repeats"] += _recorded_repeats_dropped(run, len(recorded["actions"]))
        if not far and recorded["actions"][-1]["action_name"] == "stop" and not stopped_without_rows(recorded):
            final = [a["action_argument"] for a in recorded["actions"] if a["action_name"] == "execute_sparql"][
                -1
            ].strip()
            counts["recordings that stop with rows and hold no repeat"] += 1
            counts["  of these, the final query is the recorded one"] += _same(run.outcome.query, final, run.question)
    return counts


def _recorded_repeats_dropped(run: Run, actions: int) -> int:
    return sum(step.dropped == "repeat" and step.number <= actions for step in run.discarded)


def _same(query: str, recorded: str, question: str) -> bool:
    return query.strip() in (recorded, drop_probe_limit(recorded, question).strip())


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as home:
        for name, number in count(recorded_runs(data), Path(home)).items():
            print(f"{number:6}  {name}")


if __name__ == "__main__":
    main()
