"""A saved run once more, without model or network: what was recorded answers for both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding, RankingEnding
from kbnav.agents.common.state import Ending, Reply, State, room
from kbnav.agents.common.walking import LABEL, WalkEnding
from kbnav.agents.gog import GENERATE, TRIED, GogEnding
from kbnav.agents.pasemiqa import rounds_budget
from kbnav.agents.spinach import paper_budget
from kbnav.answers.tables import AnswerTable
from kbnav.errors import QueryTimeout, ServiceError, UsageError
from kbnav.evaluation.records import GOLD, QUESTIONS, QuestionRecord, RunInfo, read_saved_run
from kbnav.evaluation.runner import begin_run
from kbnav.knowledge.base import Entity
from kbnav.runs.journal import open_journal, write_whole
from kbnav.runs.trajectory import QUERY, Call, Outcome, Run, Step, Usage
from kbnav.sessions.session import attempt
from kbnav.settings.model import OFFLINE, Budget, load_settings
from kbnav.tools.context import Context, Observation
from kbnav.tools.toolbox import Toolbox

_WALKERS = frozenset({"pasemiqa", "tog", "rog", "gog"})
"""The agents that walk along links, and end in their own way."""


def replay_run(source: Path, out: Path) -> int:
    """Put every recorded question through the state machine again, into the folder ``out``; how many there were.

    The actions are those the policy asked for, and tools answer what was observed then, so that the scores are the
    same byte for byte as long as the rules of the state machine are. A record without actions, as a retriever's, is
    taken over. Raises UsageError where answers were imported or ``out`` holds questions already.
    """
    saved = read_saved_run(source)
    if saved.info.origin:
        raise UsageError(f"{source} was not asked for here but comes from {saved.info.origin}: it can only be scored")
    budget = _budget(saved.info)
    left_out = saved.info.settings.get("without_tools", ())
    papers = saved.info.settings.get("options", {}).get("preset") == "paper"
    last_executed = papers or not budget.premature_finish
    begin_run(out, replace(saved.info, origin=f"replay of {source.name}"))
    write_whole(out / GOLD, (source / GOLD).read_text(encoding="utf-8"))
    with open_journal(out / QUESTIONS) as journal:
        if (out / QUESTIONS).stat().st_size:
            raise UsageError(f"{out} holds questions already; choose another folder")
        for record in saved.records.values():
            acted = record.run.steps and record.run.language  # a retriever's run has none
            journal.append(_replayed(record, budget, left_out, last_executed) if acted else record)
    return len(saved.records)


def _budget(info: RunInfo) -> Budget:
    """The budget that the run had: PASemiQA's is that of its rounds, where a model chose its actions."""
    budget = Budget.model_validate(info.settings.get("budget", {}))
    options = info.settings.get("options", {})
    if options.get("preset") == "paper":
        return paper_budget(budget)
    rounds = options.get("rounds")
    return rounds_budget(budget, rounds) if rounds and info.model != OFFLINE else budget


def _ending(run: Run, left_out: Sequence[str], last_executed: bool) -> Ending:
    """The ending of the agent that ran; the names and types of its nodes are those of the recorded ranking."""

    def write(outcome: Outcome, state: State, context: Context) -> tuple[str, Usage]:  # noqa: ARG001 - a Writer
        return run.outcome.text.removeprefix(LABEL).lstrip(), Usage()

    def describe(ids: Sequence[str]) -> Mapping[str, Entity]:
        nodes = {node.id: node for node in run.outcome.ranking.nodes} if run.outcome.ranking else {}
        return {one: Entity(one, nodes[one].label, kind=nodes[one].kind) for one in ids if one in nodes}

    if run.system in _WALKERS:
        tabled = run.outcome.table is not None
        if run.system == "gog":
            return GogEnding(write, describe, tabled=tabled, tried=() if GENERATE in left_out else TRIED)
        return WalkEnding(write, describe, tabled=tabled)
    return RankingEnding(write, describe) if run.system == "skb" else QueryEnding(write, last_executed=last_executed)


def _replayed(record: QuestionRecord, budget: Budget, left_out: Sequence[str], last_executed: bool) -> QuestionRecord:
    run = record.run
    agent = Agent(
        name=run.system,
        model=run.model,
        kb=_RecordedKB(run),  # type: ignore[arg-type]
        settings=load_settings(model=run.model, language=run.language, budget=budget),
        policy=_RecordedPolicy(run, budget),
        toolbox=_RecordedTools(run),
        ending=_ending(run, left_out, last_executed),
        prune=lambda entry, question: (entry, Usage()),  # noqa: ARG005
    )
    again, failure = attempt(agent, run.question)
    again = replace(
        again, id=run.id, started=run.started, seconds=run.seconds, usage=run.usage, cost=run.cost,
        replayed=run.replayed, replayed_seconds=run.replayed_seconds, replayed_cost=run.replayed_cost,
        kb={}, settings={}, versions={}, prompts={},
    )  # fmt: skip
    return QuestionRecord(record.id, again, record.error or (type(failure).__name__ if failure else ""))


class _RecordedPolicy:
    """Asks for the recorded calls turn by turn, and ends as the recorded policy did."""

    def __init__(self, run: Run, budget: Budget) -> None:
        self._budget = budget
        turns: dict[int, list[Call]] = defaultdict(list)
        for step in run.steps:
            turns[step.call.turn].append(step.call)
        self._turns = [calls for _, calls in sorted(turns.items())]
        self._outcome = run.outcome

    def __call__(self, state: State, context: Context) -> Reply:  # noqa: ARG002 - part of the protocol
        """The next turn. Raises ServiceError where the model failed, or where the recording has no further turn."""
        read = self._outcome.understood
        if self._turns:
            return Reply(self._turns.pop(0), understood=read)
        if self._outcome.stop == "refusal":
            return Reply(refusal=self._outcome.note, understood=read)
        used_up = self._outcome.stop in ("step budget", "action budget") and room(state, self._budget) <= 0
        if self._outcome.stop == "gave up" or used_up:
            return Reply()
        if self._outcome.stop == "error":
            raise ServiceError(self._outcome.note)
        raise ServiceError("the recording has no further action: the rules of the state machine have changed since")


class _RecordedTools(Toolbox):
    """Answers each call with what was observed when it was made."""

    def __init__(self, run: Run) -> None:
        super().__init__((), frozenset())
        self._run = run
        self._observed: dict[str, list[Step]] = defaultdict(list)
        for step in run.steps:
            if step.dropped in ("", "rolled back"):
                self._observed[step.call.key].append(step)

    def run(self, context: Context, name: str, thought: str, arguments: Mapping[str, Any]) -> Observation:  # noqa: ARG002
        """The next recorded observation of this call. Raises ServiceError where the service failed then."""
        steps = self._observed[Call(name, arguments).key]
        if not steps:
            raise ServiceError(f"the recording has no result of {name}: the rules of the state machine have changed")
        step, outcome = steps.pop(0), self._run.outcome
        if outcome.stop == "error" and not step.ok and step.observation == outcome.note:
            raise ServiceError(outcome.note)
        if name == QUERY and outcome.table is not None and Call(name, arguments).query == outcome.query:
            context.tables[outcome.query] = outcome.table
        result = step.result or (step.number if step.rows else 0)  # in older runs results were numbered by their action
        return Observation(step.observation, step.ok, step.rows, nodes=step.nodes, facts=step.facts, result=result)


class _RecordedKB:
    """Knows the final table and its labels; everything else is observed through the recorded tools."""

    name = "recorded"

    def __init__(self, run: Run) -> None:
        self._outcome = run.outcome

    def state(self) -> dict[str, Any]:
        return {}

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:  # noqa: ARG002
        return self._outcome.table.labels if self._outcome.table is not None else {}

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:  # noqa: ARG002
        if self._outcome.status == "failed":
            raise ServiceError(self._outcome.note)
        if query == self._outcome.query and self._outcome.table is not None:
            return self._outcome.table
        raise QueryTimeout("it has no recorded result")
