"""A whole evaluation: open the knowledge base, fetch the gold answers, ask every question, score."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from kbnav.errors import QuerySyntaxError, UsageError
from kbnav.evaluation import gold as golden
from kbnav.evaluation.datasets import FORMATS, Dataset, Question, load_dataset, load_file
from kbnav.evaluation.datasets.formats import HUMAN_TOP_V, is_human, names_only
from kbnav.evaluation.distributed import shared_run
from kbnav.evaluation.records import (
    GOLD,
    SCORES,
    GoldAnswer,
    QuestionRecord,
    RunInfo,
    SavedRun,
    read_gold,
    read_info,
    read_records,
    read_saved_run,
)
from kbnav.evaluation.runner import (
    Ended,
    Limits,
    Progress,
    System,
    begin_run,
    build_system,
    check_limits,
    kb_state,
    run_questions,
)
from kbnav.evaluation.scoring import Scores, score_run
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.sparql.vocabulary import entity_ids
from kbnav.models.prices import cost_of, known_prices, list_prices, price_of
from kbnav.runs.journal import OpenJournal, json_line, write_whole
from kbnav.runs.trajectory import Usage, to_json
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings
from kbnav.settings.options import GIVEN, FromGold
from kbnav.settings.systems import kb_kind, usual_agent

TOPICS = 20
"""Entities that are drawn from a gold answer at most, as in the paper."""


def given_of_gold(
    what: FromGold, answers: Sequence[GoldAnswer], kb: KnowledgeBase, seed: int = 0
) -> Mapping[str, Mapping[str, str]]:
    """By question, entities of its gold query, or some of its gold answer drawn with ``seed``: English labels by id.

    All labels are asked for in one batched call; an entity without one has an empty text. A question whose gold has no
    entity, such as one for a number, gets none.

    Raises UsageError where no question has any: there is nothing to measure then.
    """
    found = {one.id: _of_query(one) if what == "entities" else _drawn(one, seed) for one in answers}
    ids = list(dict.fromkeys(each for own in found.values() for each in own))
    if not ids:
        raise UsageError(f"no question has {GIVEN[what]} to give")
    labels = kb.labels(ids, language="en")
    return {name: {each: labels.get(each, "") for each in own} for name, own in found.items()}


def _of_query(answer: GoldAnswer) -> list[str]:
    """What a named entity disambiguation would find: items and lexemes; the properties stay to be found."""
    try:
        return [one for one in entity_ids(answer.query) if not one.startswith("P")]
    except QuerySyntaxError:
        return []


def _drawn(answer: GoldAnswer, seed: int) -> list[str]:
    cells = (cell for row in (answer.table.rows if answer.table else ()) for cell in row)
    ids = list(dict.fromkeys([*answer.nodes, *(cell.entity_id for cell in cells if cell and cell.entity_id)]))
    return random.Random(f"{seed} {answer.id}").sample(ids, min(TOPICS, len(ids)))


_log = logging.getLogger(__name__)

Build = Callable[[str, KnowledgeBase, Settings], System]
"""Builds a system on an open knowledge base."""
OWN_TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


@dataclass(frozen=True)
class Plan:
    """What to evaluate: a system on ``settings.kb`` over a dataset's questions; none named: that which is usual there.

    ``only`` names questions by id. ``gold`` is a file of frozen gold answers, or the folder of one; without it stored
    answers are used where the dataset has them, and gold queries are run where not. ``sample`` draws that share of the
    questions with ``seed``; ``answerable`` leaves out questions whose gold answer is empty or unknown; ``limit`` then
    takes the first so many.
    """

    system: str
    dataset: Dataset
    settings: Settings
    only: frozenset[str] = frozenset()
    sample: float | None = None
    seed: int = 0
    limit: int | None = None
    gold: Path | None = None
    answerable: bool = False
    jobs: int = 1
    limits: Limits = Limits()
    retry_failed: bool = False

    @property
    def language(self) -> str:
        """That in which the questions are asked."""
        return "en" if self.settings.language == "auto" else self.settings.language


def find_dataset(name: str, folder: Path) -> Dataset:
    """A dataset by its name, as ``FORMAT:FILE``, or from one's own JSONL, CSV or TSV. Raises UsageError, DataError."""
    form, colon, file = name.partition(":")
    if colon and form in FORMATS:
        return load_file(form, Path(file))
    if name.endswith((".jsonl", ".jsonl.gz")):
        return load_file("jsonl", Path(name))
    if name.endswith(OWN_TABLES):
        return load_file("table", Path(name))
    return load_dataset(name, folder)


def choose(dataset: Dataset, only: frozenset[str]) -> list[Question]:
    """The questions named, or all. Raises UsageError for an id that the dataset does not have."""
    unknown = only - {question.id for question in dataset.questions}
    if unknown:
        raise UsageError(f"{dataset.name} has no question {sorted(unknown)[0]!r} ({len(unknown)} ids are unknown)")
    return [question for question in dataset.questions if not only or question.id in only]


def draw(questions: list[Question], share: float | None, seed: int) -> list[Question]:
    """A random share of the questions, one at least, in their order; all without a share. The same for the same seed.

    Raises UsageError for a share that is none.
    """
    if share is None:
        return questions
    if not 0 < share <= 1:
        raise UsageError(f"a sample is a share of the questions, above 0 and up to 1, not {share:g}")
    places = random.Random(seed).sample(range(len(questions)), max(1, round(share * len(questions))))
    return [questions[place] for place in sorted(places)]


def _dataset_options(system: str, dataset: Dataset) -> dict[str, Any]:
    """What the paper of a dataset sets otherwise for it."""
    return {"top_v": HUMAN_TOP_V} if system == "rerank" and is_human(dataset.name) else {}


def evaluate(
    plan: Plan,
    folder: Path,
    *,
    stopped: Callable[[], object] = lambda: False,
    on_gold: golden.Listener | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    build: Build = build_system,
) -> Ended:
    """Run, or go on with, the evaluation in ``folder``. Raises StopRun; what was answered until then is saved.

    ``build`` makes the system of the plan's name, for those who have one that has no name.
    """
    settings = plan.settings.model_copy(update={"language": plan.language})
    check_limits(plan.limits, settings.model, list(known_prices(settings)))
    candidates = draw(choose(plan.dataset, plan.only), plan.sample, plan.seed)
    candidates = candidates if plan.answerable else candidates[: plan.limit]
    with shared_run(settings.journal.get_secret_value(), folder) as opened, open_kb(settings) as kb:
        name = plan.system or systems.usual_agent(kb)
        options = systems.find(name).read({**_dataset_options(name, plan.dataset), **settings.options})
        settings = settings.model_copy(update={"options": options.model_dump(mode="json")})
        system = build(name, kb, settings)
        questions = _with_gold(plan, candidates, kb, folder, stopped, on_gold, opened)
        if questions is None:
            return "interrupted"
        golden.refuse_unfit(list(read_gold(folder / GOLD)[1].values()), kb_kind(kb), ranks_only=system.ranks_only)
        if named := sum(map(names_only, questions)):
            what = f"{named} of {len(questions)} questions have names as stored answers"
            _log.warning("%s: kbnav eval score %s --by labels compares names", what, folder)
        system.leave_out((question.id, question.text(plan.language)) for question in questions)
        given = None
        if options.from_gold:
            if system.ask_given is None:
                raise UsageError(f"{name} cannot be given anything of the gold answers")
            _, answers = read_gold(folder / GOLD)
            given = given_of_gold(options.from_gold, [answers[one.id] for one in questions], kb, plan.seed)
        begin_run(folder, _info(plan, settings, system, kb, questions, options.from_gold))
        return run_questions(
            system,
            {question.id: question.text(plan.language) for question in questions},
            folder,
            jobs=plan.jobs,
            limits=plan.limits,
            retry_failed=plan.retry_failed,
            stopped=stopped,
            listener=on_progress,
            given=given,
            opened=opened,
        )


def score_folder(folder: Path, run: SavedRun | None = None) -> Scores:
    """Score the run in a folder from its recordings and write ``scores.json``. Raises UsageError, DataError.

    ``run`` is the run as it was read before, to be scored with its candidates.
    """
    scores = score_run(run or read_saved_run(folder))
    write_whole(folder / SCORES, to_json(scores) + "\n")
    return scores


def _with_gold(
    plan: Plan,
    candidates: list[Question],
    kb: KnowledgeBase,
    folder: Path,
    stopped: Callable[[], object],
    listener: golden.Listener | None,
    opened: OpenJournal,
) -> list[Question] | None:
    """The questions of the run, their gold answers in its folder; None where it was stopped before all were there."""
    if plan.gold:
        head, answers = golden.take_gold(plan.dataset, candidates, golden.gold_file(plan.gold, plan.dataset.name))
        if read_info(folder) is None:  # what a kill left of an earlier start is no part of a run
            lines = b"".join(json_line(line) for line in (head, *answers.values()))
            write_whole(folder / GOLD, lines.decode())
    else:
        answers = dict(
            golden.collect_gold(
                plan.dataset,
                candidates,
                kb,
                folder / GOLD,
                stored=True,
                language=plan.language,
                jobs=plan.jobs,
                stopped=stopped,
                listener=listener,
                opened=opened,
            )
        )
        if len(answers) < len(candidates):
            return None
    questions = [question for question in candidates if not plan.answerable or answers[question.id].has_rows]
    if not questions:
        raise UsageError("no question has a gold answer with rows on this knowledge base")
    return questions[: plan.limit]


def _info(
    plan: Plan,
    settings: Settings,
    system: System,
    kb: KnowledgeBase,
    questions: list[Question],
    from_gold: FromGold,
) -> RunInfo:
    from kbnav.runs.trajectory import versions

    frozen = golden.gold_file(plan.gold, plan.dataset.name) if plan.gold else None
    return RunInfo(
        system=system.name,
        model=system.model,
        dataset=plan.dataset.name,
        dataset_sha256=plan.dataset.sha256,
        questions=tuple(question.id for question in questions),
        language=plan.language,
        gold_sha256=golden.file_sha256(frozen) if frozen else "",
        kb=kb_state(kb),
        settings=settings.public(),
        versions=versions(),
        prompts=dict(system.prompts),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        sample={"share": plan.sample, "seed": plan.seed} if plan.sample is not None else {},
        from_gold=from_gold,
        topics={"most": TOPICS, "seed": plan.seed} if from_gold == "results" else {},
    )


PUBLISHED = Usage(prompt=17_604, completion=509, cached=13_488, calls=8)
"""Means of a question of ``spinach``: the published SPINACH runs on QALD-10, by ``python benchmarks/cost.py``."""
_FEW = 5
"""Questions whose mean is better than that of other runs."""


@dataclass(frozen=True)
class Foretold:
    """Means of one question, and what all that are left will cost; ``basis`` says where the means are from."""

    questions: int
    each: Usage
    basis: str
    dollars: float | None
    priced: str = ""

    def __str__(self) -> str:
        if not self.each.calls:
            return f"{self.questions} questions: {self.basis}"
        cost = "price not known (setting prices)" if self.dollars is None else f"about ${self.dollars:.2f}{self.priced}"
        read, written = self.each.prompt * self.questions, self.each.completion * self.questions
        return f"{self.questions} questions: about {read:,} + {written:,} tokens, {cost}; {self.basis}"


def foretell_plan(plan: Plan, folder: Path) -> Foretold:
    """What a plan will cost that is begun, or gone on with, in a folder. Raises as ``evaluate``."""
    questions = draw(choose(plan.dataset, plan.only), plan.sample, plan.seed)[: plan.limit]
    records = read_records(folder)
    left = sum(one.id not in records for one in questions)
    system = plan.system
    if not system and plan.settings.model != OFFLINE:
        with open_kb(plan.settings) as kb:
            system = usual_agent(kb)
    return foretell(system, plan.settings, left, records.values())


def foretell(system: str, settings: Settings, left: int, done: Iterable[QuestionRecord]) -> Foretold:
    """What ``left`` questions will cost: as those that were ``done`` in this run, else as published ones did."""
    if settings.model == OFFLINE:
        return Foretold(left, Usage(), "no model is asked, and nothing is paid", 0.0)
    known = [one.run.whole_usage for one in done if one.run.whole_usage.calls]
    if len(known) >= _FEW:
        prompt, completion, cached = (round(fmean(part)) for part in zip(*map(_parts, known), strict=True))
        each, basis = Usage(prompt, completion, cached, 1), f"as the {len(known)} that were asked"
    elif system == "spinach":
        each, basis = PUBLISHED, "as the published runs of SPINACH on QALD-10"
    else:
        return Foretold(left, Usage(), f"what {system} uses is not known before it was asked: try --limit {_FEW}", None)
    price = price_of(settings, settings.model)
    cost = cost_of(each, price)
    listed = "" if settings.model in settings.prices else f" at the list prices of {list_prices()[0]}"
    return Foretold(left, each, basis, None if cost is None else cost * left, listed if cost is not None else "")


def _parts(used: Usage) -> tuple[int, int, int]:
    return used.prompt, used.completion, used.cached


RULES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "rollback": {"budget": {"rollback": False}},
        "premature_finish": {"budget": {"premature_finish": False}},
        "hint": {"budget": {"hint": False}},
        "pruning": {"pruning": "none"},
    }
)
"""What each rule's name sets; any name that is no part's either is that of a tool."""
PARTS = frozenset({"kg", "drf"})
"""Parts of the system ``kar``; its option ``without`` holds them."""


def leave_out(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings without these rules, parts and tools; whether the system has them is seen when it is built."""
    changed = settings
    for name in names:
        if name in PARTS:
            given = changed.options.get("without", ())
            parts = given.split(",") if isinstance(given, str) else given
            changed = changed.model_copy(update={"options": {**changed.options, "without": (*parts, name)}})
            continue
        rule = RULES.get(name, {"without_tools": (*changed.without_tools, name)})
        budget = changed.budget.model_copy(update=rule.get("budget", {}))
        changed = changed.model_copy(update={**rule, "budget": budget})
    return changed
