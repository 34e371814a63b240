"""Who writes programs: a model, told what a program must be, what it may call, and what came of those before."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import ModelCalls
from kbnav.planning.paths import example_edge
from kbnav.planning.training import LabelledQuestion
from kbnav.programs.api import Api
from kbnav.programs.program import BadProgram, Problem, Program
from kbnav.programs.sandbox import LANGUAGE
from kbnav.programs.steps import Action, History, Trial, Verdict, means
from kbnav.prompts import render
from kbnav.retrieval.expansion import structures
from kbnav.runs.trajectory import Trace

THRESHOLD = 0.5
"""Of hit@5, and of the share of the answers that are found: queries above both went well."""
SHOWN = 5
"""Queries shown of each side."""
PREDICTIONS = 5
"""First nodes of a ranking that are shown."""
FOUND_AMONG = 20
"""First nodes among which an answer counts as found, as in Recall@20 (STaRK, section 3.2; Agent Retriever, 5.3)."""
DEBUG = 1_200
"""Characters of a query's debug output that the writer is shown."""
_TOLD = 3
"""Queries whose debug output is kept."""
_PLACE = "[a name]"
_COMMON = re.compile(r"[a-z]+(?:['’-][a-z]+)*")
_QUOTED = re.compile(r"[\"“”„«»'‘’`]")


@dataclass(frozen=True)
class Contrast:
    """What came of a program: the queries that it did best on, best first, and those it did worst on, worst first."""

    trials: Sequence[Trial]
    well: tuple[Trial, ...]
    badly: tuple[Trial, ...]
    went_well: int
    """How many of those without an error went well."""
    whole: int
    """How many went as well as they can: no wrong node above a right one."""

    @property
    def failed(self) -> int:
        """Queries on which the program ended with an error."""
        return sum(bool(one.error) for one in self.trials)


def split(trials: Sequence[Trial]) -> Contrast:
    """Divide trials by all their answers: well went those with a hit@5 of ``THRESHOLD`` or more and most answers found.

    Found is what is among the first 20, and most of them is more than the threshold. Where fewer than ``SHOWN`` went
    badly, those that went well but not as well as they can stand behind them. Either side is in order of ``standing``,
    equal ones in their own. Trials that failed are on neither: their rankings are not the program's.
    """
    done = sorted((one for one in trials if not one.error), key=lambda one: -standing(one))
    well = [one for one in done if one.metrics["hit@5"] >= THRESHOLD and found_share(one) > THRESHOLD]
    less = [one for one in well if not _is_whole(one)]
    badly = sorted((one for one in done if one not in well), key=standing)
    badly += sorted(less, key=standing)[: max(0, SHOWN - len(badly))]
    best = tuple([one for one in well if one not in badly][:SHOWN])
    return Contrast(trials, best, tuple(badly[:SHOWN]), len(well), sum(map(_is_whole, done)))


def standing(trial: Trial) -> float:
    """How well a query went, from 0 to 1: the mean of its MRR and of the share of its answers that are found."""
    return (trial.metrics["mrr"] + found_share(trial)) / 2


def found_share(trial: Trial) -> float:
    """The answers among the first 20, as a share of those that there is room for."""
    ranks = trial.ranks.values()
    return sum(rank is not None and rank <= FOUND_AMONG for rank in ranks) / max(1, min(FOUND_AMONG, len(ranks)))


def _is_whole(trial: Trial) -> bool:
    wanted = range(1, min(FOUND_AMONG, len(trial.ranks)) + 1)
    return set(wanted) <= set(trial.ranks.values())


def describe_trial(trial: Trial, label: Callable[[str], str]) -> str:
    """One query for the writer: its first predictions with their scores, the truth with its ranks, what debug told."""
    predicted = [
        f"{place}. {label(node)} ({node}){f' {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        for place, node in enumerate(trial.ranking[:PREDICTIONS], 1)
    ]
    late = f"not among the first {len(trial.ranking)}, though a candidate"
    truth = [
        f"{label(node)} ({node}) at rank {rank}{f' with {trial.scores[node]:.4g}' if node in trial.scores else ''}"
        if rank
        else f"{label(node)} ({node}) {late if node in trial.candidates else 'no candidate'}"
        for node, rank in sorted(trial.ranks.items(), key=lambda pair: pair[1] or len(trial.ranking) + 1)
    ]
    few = truth[:PREDICTIONS] + ([f"and {len(truth) - PREDICTIONS} more"] if len(truth) > PREDICTIONS else [])
    told = [f"Debug output: {_cut(trial.debug)}"] if trial.debug else []
    return "\n".join(
        [f"Query: {trial.query.text}", "First predictions:", *predicted, f"Right answers: {'; '.join(few)}", *told]
    )


def document_pair(trial: Trial, document: Callable[[str], str]) -> list[str]:
    """The documents of a right answer and of the first wrong node of a query; empty where there is none of either."""
    wrong = next((node for node in trial.ranking if node not in trial.ranks), "")
    right = next(iter(sorted(trial.ranks)), "")
    return [_cut(document(right)), _cut(document(wrong))] if right and wrong else []


def debug_of_worst(trials: Sequence[Trial]) -> str:
    """What a program told by ``debug`` on the queries that failed, or else on those that went worst; empty for none."""
    failed = [one for one in trials if one.error]
    chosen = failed or sorted(trials, key=standing)
    return "\n\n".join(f"Query: {one.query.text}\n{_cut(one.debug)}" for one in chosen[:_TOLD] if one.debug)


def _cut(text: str) -> str:
    return text if len(text) <= DEBUG else f"{text[:DEBUG]} [{len(text) - DEBUG} more characters]"


def names_in(contrast: Contrast, label: Callable[[str], str], named: Callable[[str], Iterable[str]]) -> list[str]:
    """What instructions may not name: ids and names of the nodes shown, and what the queries name, longest first."""
    found: set[str] = set()
    for trial in (*contrast.well, *contrast.badly):
        nodes = [*trial.ranking[:PREDICTIONS], *trial.query.answers]
        found.update(nodes, map(label, nodes), named(trial.query.text))
    return sorted((name for name in found if len(name) > 1), key=lambda name: (-len(name), name))


def without_names(text: str, names: Sequence[str]) -> str:
    """The text with each name replaced; one word in small letters, as ``key``, only where it is quoted."""
    for name in names:
        escaped = re.escape(name)
        if _COMMON.fullmatch(name):
            text = re.sub(rf"({_QUOTED.pattern}){escaped}({_QUOTED.pattern})", rf"\1{_PLACE}\2", text)
        else:
            text = re.sub(rf"(?<!\w){escaped}(?!\w)", _PLACE, text, flags=re.IGNORECASE)
    return text


EXAMPLES = 20
"""Training queries that the writer sees before it writes."""
_LESSONS = 5
"""Instructions of each kind that the writer is told, the last ones."""
_LED_TO: Mapping[Verdict, str] = MappingProxyType(
    {
        "better": "a better program",
        "chance": "a program that scored higher, but by no more than chance may do",
        "tie": "a program that scored the same",
        "worse": "a worse program",
        "failed": "a program that failed, which says nothing of the advice",
    }
)
_BLOCK = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Rejected:
    """A source that was found wrong before it ran, and why."""

    source: str
    error: str


@dataclass(frozen=True)
class Brief:
    """What the writer is told before a step. ``first`` are the first stage's means over the validation queries."""

    action: Action
    number: int
    pattern: str
    examples: Sequence[LabelledQuestion]
    first: Mapping[str, float]
    history: History
    rejected: tuple[Rejected, ...] = ()
    """What was written at this step already."""
    reachable: float | None = None
    """The share of the validation answers that are candidates; None where that is not known."""


@dataclass(frozen=True)
class Setting:
    """What a training keeps: knowledge base and API as text, and the ``language`` that programs are checked in."""

    knowledge_base: str
    schema: str
    structures: str
    api: str
    language: str = LANGUAGE


class ModelWriter:
    """A chat model. All that it is told at a step is one prompt, made from the steps before: it needs no memory."""

    def __init__(self, calls: ModelCalls, setting: Setting) -> None:
        self._calls, self._setting = calls, setting

    def write(self, brief: Brief, trace: Trace) -> str:
        """The source of the next step's program; the same brief gives the same one. Raises as the model's calls do."""
        history, anew = brief.history, brief.action == "anew"
        instruction = "" if anew else history.pending
        lessons = history.lessons()
        lessons.pop(instruction, None)
        prompt = render(
            "agent_retriever/write.md",
            setting=self._setting,
            brief=brief,
            leaders=history.leaders(),
            lessons={
                words: [advice for advice, verdict in lessons.items() if verdict == kind][-_LESSONS:]
                for kind, words in _LED_TO.items()
            },
            last=None if anew or brief.rejected else history.last,
            instruction=instruction,
            about={step.instruction: step.number for step in history.steps if step.instruction},
        )
        return program_in(self._calls.ask(prompt, trace, purpose=brief.action))

    def reflect(
        self,
        brief: Brief,
        source: str,
        contrast: Contrast,
        label: Callable[[str], str],
        document: Callable[[str], str],
        trace: Trace,
    ) -> str:
        """General instructions from what went well and badly; empty where every query went as well as it can."""
        metrics = means(contrast.trials)
        if metrics["mrr"] == 1:
            return ""
        prompt = render(
            "agent_retriever/reflect.md",
            setting=self._setting,
            pattern=brief.pattern,
            source=source,
            contrast=contrast,
            metrics=metrics,
            well=[describe_trial(one, label) for one in contrast.well],
            badly=[describe_trial(one, label) for one in contrast.badly],
            documents=document_pair(contrast.badly[0], document) if contrast.badly else [],
        )
        return self._calls.ask(prompt, trace, purpose="reflect").strip()


def program_in(reply: str) -> str:
    """The program in a reply: its last block of code that defines an entry, else its last block, else all of it."""
    blocks = [str(block).strip("\n") + "\n" for block in _BLOCK.findall(reply)]
    entries = [block for block in blocks if re.search(r"^def (score|retrieve)\(", block, re.MULTILINE)]
    return (entries or blocks or [reply.strip() + "\n"])[-1]


REWRITES = 2
"""Times within a step that the writer is given back a source that is wrong before it runs."""
REPAIRS = 3
"""In a row; then the training continues with the best program."""


def write_program(
    brief: Brief, writer: ModelWriter, check: Callable[[Program], Sequence[Problem]], trace: Trace
) -> tuple[str, Program | None, tuple[Rejected, ...]]:
    """What was written, its program, and what was rejected before it; no program: that was rejected too.

    What can be known before a run costs no step: the writer is told of it and writes again, ``REWRITES`` times at most
    and not where it gives the same source.
    """
    while True:
        source = writer.write(brief, trace)
        try:
            program = Program.read(source)
            if not (problems := check(program)):
                return source, program, brief.rejected
            error = f"type check, before running: {BadProgram(problems)}"
        except BadProgram as bad:
            error = f"check of the source, before running: {bad}"
        known = [one.source for one in brief.rejected]
        brief = replace(brief, rejected=(*brief.rejected, Rejected(source, error)))
        if source in known or len(brief.rejected) > REWRITES:
            return source, None, brief.rejected


def next_action(history: History, patience: int) -> Action:
    """What the writer is asked for next."""
    if history.last is None:
        return "write"
    tried = [step.action for step in history.steps[-REPAIRS:]]
    if history.last.broken and tried != ["repair"] * REPAIRS:
        return "repair"
    return "anew" if history.without_gain >= patience else "improve"


def example_queries(queries: Sequence[LabelledQuestion], seed: str) -> list[LabelledQuestion]:
    """So many queries at random, in their order."""
    places = random.Random(seed).sample(range(len(queries)), min(EXAMPLES, len(queries)))
    return [queries[place] for place in sorted(places)]


_TUPLES = 80
"""Relations that the writer is told of."""
_LABEL = 60
"""Characters of a name in an example."""


def describe_setting(kb: SkbKB, api: Api) -> Setting:
    """The knowledge base and the API as the writer reads them."""
    meta = kb.skb.meta
    types = ", ".join(f"{one.name} ({one.count:,})" for one in meta.types)
    fields = [f"- {kind}: {', '.join(names)}" for kind, names in structures(kb.skb).items()]
    return Setting(
        f"{meta.name}: {meta.nodes:,} nodes and {meta.edges:,} edges. Nodes by type: {types}.",
        "\n".join(_relations(kb)),
        "\n".join(fields),
        api.prompt,
    )


def _relations(kb: SkbKB) -> Iterator[str]:
    tuples = sorted(kb.skb.meta.tuples, key=lambda one: -one.count)
    for one in tuples[:_TUPLES]:
        found = [name[:_LABEL] for name in example_edge(kb.skb, one.source, one.relation, one.target)]
        such = f", as {' --> '.join(found)}" if found else ""
        yield f"- {one.source} --{kb.relations.display(one.relation)}--> {one.target} ({one.count:,}){such}"
    if len(tuples) > _TUPLES:
        yield f"- and {len(tuples) - _TUPLES} more, each with fewer edges"
