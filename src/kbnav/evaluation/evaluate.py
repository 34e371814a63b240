"""A whole evaluation: open the knowledge base, fetch the gold answers, ask every question, score."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from kbnav.answers.language import plural
from kbnav.answers.tables import markdown_table
from kbnav.errors import DataError, UsageError
from kbnav.evaluation import gold as golden
from kbnav.evaluation.datasets import SOURCES, find_dataset
from kbnav.evaluation.datasets.formats import HUMAN_TOP_V, is_human
from kbnav.evaluation.datasets.records import Dataset, Question
from kbnav.evaluation.metrics.statistics import Spread
from kbnav.evaluation.records import (
    GOLD,
    INFO,
    SCORES,
    GoldAnswer,
    RunInfo,
    SavedRun,
    flat_settings,
    read_gold,
    read_info,
    read_saved_run,
)
from kbnav.evaluation.runner import (
    NOT_OF_RUNS,
    Build,
    Ended,
    Progress,
    begin_run,
    build_system,
    check_limit,
    kb_state,
    run_questions,
)
from kbnav.evaluation.scoring import Scores, score_run
from kbnav.knowledge.base import KnowledgeBase, is_mirror
from kbnav.knowledge.open import open_kb
from kbnav.models.prices import known_prices, list_prices, price_of
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import now, to_json, versions
from kbnav.settings import systems
from kbnav.settings.model import OFFLINE, Settings, load_settings, refuse_foreign
from kbnav.settings.plugins import require
from kbnav.settings.systems import usual_agent

_log = logging.getLogger(__name__)
RULES = frozenset({"rollback", "premature_finish", "hint"})
"""Rules of the budget that can be left out, as ``pruning`` and the parts can; any other name is that of a tool."""
PARTS = frozenset({"kg", "drf"})
"""Parts of the system ``kar``; its option ``without`` holds them."""


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate: a system on ``settings.kb`` over a dataset's questions; none named: the usual one there.

    ``only`` names questions by id. ``gold`` is a file of frozen gold answers, or the folder of one; without it stored
    answers are used where the dataset has them, and gold queries are run where not. ``sample`` draws that share of the
    questions with ``seed``; ``answerable`` leaves out questions whose gold answer is empty or unknown, and those
    to which a query on a mirror gave 0 or no; ``limit`` then takes the first so many.
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
    max_cost: float | None = None
    retry_failed: bool = False
    drawn: Mapping[str, Any] = field(default_factory=dict)
    """How the questions named in ``only`` were taken of the dataset, where another run did it (``RunInfo.sample``)."""

    @property
    def sampling(self) -> Mapping[str, Any]:
        """How the questions are taken of the dataset, as ``RunInfo.sample`` has it."""
        drawn = {"share": self.sample, "seed": self.seed} if self.sample is not None else {}
        whole, named = len(self.dataset.questions), sorted(self.only)
        ids = sha256("\n".join(named).encode()).hexdigest()
        only = f"{len(named)} of {whole}, SHA-256 of the ids {ids}" if not self.drawn and 0 < len(named) < whole else ""
        given = {"only": only, "answerable": self.answerable, "limit": self.limit}
        return {**self.drawn, **drawn, **{name: value for name, value in given.items() if value}}

    @property
    def language(self) -> str:
        """That in which the questions are asked."""
        return "en" if self.settings.language == "auto" else self.settings.language


def repeated(folder: Path, dataset: str = "", kb: str = "", system: str = "") -> EvaluationPlan:
    """The plan of a saved run: its system, settings, questions and gold answers, with the secrets that are set now.

    The questions are those in its folder, or read anew from ``dataset``, with which it needs no gold answers. ``kb`` is
    where its knowledge base is now; ``system`` allows a system that is code, ``module:attribute``. Raises UsageError
    where the questions are others, where a setting or option is no longer known or only the run's file names an address
    or code, and DataError.
    """
    info, gold = read_info(folder), folder / GOLD
    if info.origin:
        raise UsageError(f"{folder} was imported from {info.origin}: kbnav has no system to ask again")
    if dataset:
        found = find_dataset(dataset)
    else:
        answers = read_gold(gold)[1]
        if lost := [name for name in info.questions if name not in answers]:
            raise DataError(f"{gold}: the question {lost[0]!r} of the run is missing")
        asked_then = [answers[name] for name in info.questions]
        kept = (Question(one.id, {info.language: one.question}, one.query) for one in asked_then)
        found = Dataset(info.dataset, tuple(kept), SOURCES["jsonl"], info.dataset_sha256)
    if found.sha256 != info.dataset_sha256:
        raise UsageError(f"{folder} asked other questions than {found.name} has, or they have changed since")
    name = info.named or info.system
    if ":" in name and name != system:
        raise UsageError(f"only the run's file names {name}: to run its code, give --system {name}")
    same = {one: value for one, value in info.settings.items() if one not in NOT_OF_RUNS}
    same |= {"kb": kb} if kb else {}
    refuse_foreign(same, load_settings(kb=kb or None))
    try:
        settings = load_settings(**same)
        systems.find(name).read(settings.options)
    except UsageError as error:
        raise UsageError(f"{folder} was made by a kbnav with other settings: {error}") from error
    seed, asked = int(info.topics.get("seed", 0)), frozenset(info.questions)
    frozen = gold if gold.exists() else None
    return EvaluationPlan(name, found, settings, asked, gold=frozen, seed=seed, drawn=info.sample)


def run_card(info: RunInfo) -> list[tuple[str, str]]:
    """What a paper's appendix says of a run, as names and values; settings are those that differ from the defaults."""
    usual, own = flat_settings(Settings.model_construct().public()), info.settings
    mirror = {name: value for name, value in info.kb.get("mirror", {}).items() if name != "built"}
    kb = {"name": own.get("kb", ""), **info.kb, **({"mirror": mirror} if mirror else {})}
    if "files" in kb:
        kb["files"] = f"SHA-256 {sha256(json.dumps(kb['files'], sort_keys=True).encode()).hexdigest()}"
    price = price_of(Settings.model_construct(base_url=own.get("base_url", ""), prices={}), info.model)
    changed = {name: value for name, value in flat_settings(own, NOT_OF_RUNS).items() if value != usual.get(name)}
    own_gold = "the dataset's own, or its queries run on this knowledge base (gold.jsonl)"
    return [
        ("system", info.display_name + (f", named {info.named}" if info.named else "")),
        ("model", info.model),
        *([("list price", f"${price.prompt:g} in, ${price.completion:g} out ({list_prices()[0]})")] if price else []),
        ("dataset", f"{info.dataset}, {plural(len(info.questions), 'question')}, SHA-256 {info.dataset_sha256}"),
        ("sample", ", ".join(f"{name} {value}" for name, value in info.sample.items()) or "all"),
        ("gold answers", f"SHA-256 {info.gold_sha256}" if info.gold_sha256 else own_gold),
        *((f"knowledge base's {name}", _shown(value)) for name, value in kb.items()),
        ("started", info.started),
        *((f"setting {name}", _shown(value)) for name, value in changed.items()),
        *((f"version of {name}", version) for name, version in info.versions.items()),
        *((f"prompt {name}", sha) for name, sha in info.prompts.items()),
    ]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def choose(dataset: Dataset, only: frozenset[str]) -> list[Question]:
    """The questions named, or all. Raises UsageError for an id that the dataset does not have."""
    unknown = only - {question.id for question in dataset.questions}
    if unknown:
        raise UsageError(f"{dataset.name} has no question {sorted(unknown)[0]!r} ({len(unknown)} ids are unknown)")
    return [question for question in dataset.questions if not only or question.id in only]


def draw(questions: list[Question], share: float | None, seed: int) -> list[Question]:
    """A random share of the questions, one at least, in their order; all without a share. Raises UsageError."""
    if share is None:
        return questions
    if not 0 < share <= 1:
        raise UsageError(f"a sample is a share of the questions, above 0 and up to 1, not {share:g}")
    places = random.Random(seed).sample(range(len(questions)), max(1, round(share * len(questions))))
    return [questions[place] for place in sorted(places)]


def leave_out(settings: Settings, names: Sequence[str]) -> Settings:
    """The settings without these rules, parts and tools (SPINACH, Table 4; KAR, section 5.2).

    Whether the system has them is seen when it is built.
    """
    for name in sorted(set(names)):  # their order makes no other run
        if name in PARTS:
            given = settings.options.get("without", ())
            parts = given.split(",") if isinstance(given, str) else given
            less: Mapping[str, Any] = {"options": {**settings.options, "without": (*parts, name)}}
        elif name in RULES:
            less = {"budget": settings.budget.model_copy(update={"without": (*settings.budget.without, name)})}
        else:
            less = {"pruning": "none"} if name == "pruning" else {"without_tools": (*settings.without_tools, name)}
        settings = settings.model_copy(update=less)
    return settings


def evaluate(
    plan: EvaluationPlan,
    folder: Path,
    *,
    stopped: Callable[[], object] = lambda: False,
    on_gold: golden.Listener | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    build: Build = build_system,
) -> Ended:
    """Run, or go on with, the evaluation in ``folder``. Raises StopRun; what was answered until then is saved.

    ``build`` makes the system of the plan's name.
    """
    settings = plan.settings.model_copy(update={"language": plan.language})
    check_limit(plan.max_cost, settings.model, list(known_prices(settings)))
    candidates = draw(choose(plan.dataset, plan.only), plan.sample, plan.seed)
    with open_kb(settings) as kb:
        name = plan.system or usual_agent(kb)
        # What the paper of a dataset sets otherwise for it.
        usual = {"top_v": HUMAN_TOP_V} if name == "rerank" and is_human(plan.dataset.name) else {}
        entry = systems.find(name)
        options = entry.read({**usual, **settings.options})
        settings = settings.model_copy(update={"options": options.model_dump(mode="json")})
        system = build(name, kb, settings)
        asks = system.prompts if system.ranks_only else "model" in entry.uses and name != usual_agent(kb)
        if settings.model == OFFLINE and asks:
            _log.warning("rules stand in for the language model that %s asks; --model names one", name)
        asked = _with_gold(plan, candidates, kb, folder, stopped, on_gold)
        if asked is None:
            return "interrupted"
        questions, gold = [question for question, _ in asked], [answer for _, answer in asked]
        golden.refuse_unfit(gold, kb, ranks_only=system.ranks_only)
        if any(one.table is not None for one in gold):
            require("scoring tables", "scipy", extra="eval")
        texts = {question.id: question.text(plan.language) for question in questions}
        unknown = [one for one in gold if not one.known]
        for one in unknown[:10]:
            _log.warning("no gold answer of %s: %s", one.id, one.error.partition("\n")[0])
        if unknown:
            left = f"{len(unknown)} of {len(texts)} questions have no gold answer and cannot be scored"
            _log.warning("%s; --answerable does not ask them", left)
        system.leave_out(texts.items())
        given = None
        if options.from_gold:
            if not system.takes_gold:
                raise UsageError(f"{name} cannot be given anything of the gold answers")
            given = golden.given_of_gold(options.from_gold, gold, kb, plan.seed)
        info = RunInfo(
            system=system.name,
            model=system.model,
            dataset=plan.dataset.name,
            dataset_sha256=plan.dataset.sha256,
            questions=tuple(texts),
            language=plan.language,
            gold_sha256=golden.file_sha256(golden.gold_file(plan.gold, plan.dataset.name)) if plan.gold else "",
            kb=kb_state(kb),
            settings={one: value for one, value in settings.public().items() if one not in NOT_OF_RUNS},
            versions=versions(),
            prompts=dict(system.prompts),
            started=now(),
            sample=plan.sampling,
            from_gold=options.from_gold,
            topics={"most": golden.TOPICS, "seed": plan.seed} if options.from_gold == "results" else {},
            named=name if name != system.name else "",
        )
        begin_run(folder, info)
        return run_questions(
            system,
            texts,
            folder,
            jobs=plan.jobs,
            max_cost=plan.max_cost,
            retry_failed=plan.retry_failed,
            stopped=stopped,
            listener=on_progress,
            given=given,
        )


def _with_gold(
    plan: EvaluationPlan,
    candidates: list[Question],
    kb: KnowledgeBase,
    folder: Path,
    stopped: Callable[[], object],
    listener: golden.Listener | None,
) -> list[tuple[Question, GoldAnswer]] | None:
    """The questions with gold answers, which are in the folder too; None where it was stopped before all were there."""
    if not plan.answerable:
        candidates = candidates[: plan.limit]
    answers: Mapping[str, GoldAnswer]
    if plan.gold:
        copy = folder / GOLD if not (folder / INFO).exists() else None  # what a kill left is no part of a run
        source = golden.gold_file(plan.gold, plan.dataset.name)
        answers = golden.take_gold(plan.dataset, candidates, source, copy)
    else:
        answers = golden.collect_gold(
            plan.dataset,
            candidates,
            kb,
            folder / GOLD,
            stored=True,
            retry_failed=plan.retry_failed,
            language=plan.language,
            jobs=plan.jobs,
            stopped=stopped,
            listener=listener,
        )
        if len(answers) < len(candidates):
            return None
    asked = [(one, answers[one.id]) for one in candidates]
    if plan.answerable:
        copied = is_mirror(read_gold(folder / GOLD)[0].kb)
        asked = [both for both in asked if both[1].has_rows and not (copied and golden.is_no_or_0(both[1]))]
    if not asked:
        raise UsageError("no question has a gold answer with rows on this knowledge base")
    return asked[: plan.limit]


def score_folder(folder: Path, run: SavedRun | None = None, metrics: Sequence[str] = ()) -> Scores:
    """Score the run in a folder from its recordings and write ``scores.json``. Raises UsageError, DataError.

    ``run`` is the run as it was read before, to be scored with its candidates; ``metrics`` are further ones.
    """
    scores = score_run(run or read_saved_run(folder), metrics)
    write_whole(folder / SCORES, to_json(scores) + "\n")
    return scores


class Variant(NamedTuple):
    """One run of a sweep: its name, which is that of its folder, its options, and what is left out of the system."""

    name: str
    options: Mapping[str, Any]
    without: str = ""


def variants(vary: Sequence[str], without: Sequence[str], system: str, fixed: Mapping[str, Any]) -> list[Variant]:
    """A run for each value of each ``NAME=VALUE,VALUE…``, and for each of ``without`` one beside a whole one.

    The ``fixed`` options stand beside the value, and ``+`` adds options of one value, as in
    ``planner=ranker+trained=my.planner``. Raises UsageError for what is no pair, an option that the system does not
    have, and a value given twice.
    """
    if not vary and not without:
        raise UsageError("give --vary or --without: what the runs differ by")
    if vary and not system:
        raise UsageError("say whose options are varied, as in --system pasemiqa (see kbnav systems)")
    found = [Variant("full", fixed)] if without else []
    found += [Variant(f"without-{names.replace(',', '-')}", fixed, names) for names in without]
    for given in vary:
        option, values = _pair(given, f"--vary takes name=value,value, not {given!r}")
        for value in filter(None, map(str.strip, values.split(","))):
            plain, *own = value.split("+")
            more = dict(_pair(one, f"behind + stands name=value, not {one!r}") for one in own)
            options = systems.find(system).read({**fixed, option: plain, **more})
            own_name = f"{option}={value}".replace("/", "_")
            found.append(Variant(own_name, options.model_dump(mode="json", exclude_unset=True)))
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"--vary has {twice[0]} twice")
    return found


def _pair(text: str, problem: str) -> tuple[str, str]:
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value.strip(", "):
        raise UsageError(problem)
    return name, value


def run_folders(out: Path, name: str, repeat: int) -> list[Path]:
    """Where the runs of a value are; the first has the value's name, the others a number behind it."""
    return [out / (name if number == 1 else f"{name}.{number}") for number in range(1, repeat + 1)]


_TOOK = ("seconds", "calls", "tokens", "cost")
"""What a question took, behind the scores in every row."""


def sweep_row(name: str, runs: Sequence[Path]) -> dict[str, Any]:
    """What came of the runs of a variant: every mean, and its deviation as ``_sd``, None where there is none.

    With one run, seconds, calls, tokens and cost are spread over its questions and scores have no deviation; with
    several, every number is the mean of the runs' means, spread over the runs. ``calls_replayed`` counts the calls that
    were answered from the cache. Raises UsageError, DataError.
    """
    saved = [read_saved_run(folder) for folder in runs]
    scores = [score_run(one).all for one in saved]
    asked = [[record.run for record in one.records.values()] for one in saved]
    costs = [[run.cost for run in one if run.cost is not None] for one in asked]
    known = all(len(some) == len(its) for some, its in zip(costs, asked, strict=True))
    spreads = {
        **{name: Spread.of(score.values[name] for score in scores) for name in scores[0].values},
        "seconds": _spread([[run.seconds for run in one] for one in asked]),
        "calls": _spread([[run.usage.calls for run in one] for one in asked]),
        "tokens": _spread([[run.usage.prompt + run.usage.completion for run in one] for one in asked]),
        "cost": _spread(costs) if known else (None, None),
    }
    return {
        "name": name,
        "runs": len(saved),
        "questions": scores[0].questions,
        **{key: number for name, (mean, sd) in spreads.items() for key, number in ((name, mean), (f"{name}_sd", sd))},
        "calls_replayed": sum(run.usage.kept for one in asked for run in one),
    }


def _spread(values: Sequence[Sequence[float]]) -> Spread:
    return Spread.of(values[0]) if len(values) == 1 else Spread.of(fmean(value) for value in values)


def sweep_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table for a paper; scores in percent, the rest a question."""
    spread = (name.removesuffix("_sd") for row in rows for name in row if name.endswith("_sd"))
    names = [*dict.fromkeys(name for name in spread if name not in _TOOK), *_TOOK]
    digits = {"calls": 1, "tokens": 0, "cost": 4}

    def text(one: Mapping[str, Any], name: str) -> str:
        if one.get(name) is None:
            return "–"
        scale = 1 if name in _TOOK else 100
        return Spread(one[name], one[f"{name}_sd"]).text(digits.get(name, 2), scale)

    lines = [
        (row["name"], row["runs"], row["questions"], *(text(row, name) for name in names), row["calls_replayed"])
        for row in rows
    ]
    return markdown_table(("Value", "Runs", "Questions", *names, "Replayed calls"), lines)
