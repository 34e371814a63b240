"""A training put together over one knowledge base: its parts, its writer, and what the writer is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.names import NodeMatcher
from kbnav.knowledge.skb.question_reading import read
from kbnav.models.prices import cost_of, price_of
from kbnav.planning.training import Asked, examples
from kbnav.programs.candidates import FirstStage
from kbnav.programs.groups import (
    MOST,
    SMALLEST,
    common_words,
    groups_by_model,
    groups_by_words,
    one_group,
    telling_words,
)
from kbnav.programs.loop import Plan, Prices, Workshop
from kbnav.programs.open import Parts, bound_to, open_parts
from kbnav.programs.setting import described
from kbnav.programs.standin_writer import StandInWriter
from kbnav.programs.train import TRAINING, Grouped, Listener, Order, Trained, train
from kbnav.programs.trials import Bench, TrainingQuery
from kbnav.programs.weighting import FILE, weigh
from kbnav.programs.writer import ModelWriter, Writer
from kbnav.prompts import prompt_hashes
from kbnav.runs.trace import Trace
from kbnav.settings.model import OFFLINE, Settings

if TYPE_CHECKING:
    from kbnav.programs.sandbox import Sandbox

Grouping = Literal["auto", "model", "paths", "words"]
"""By patterns that a model sees, by words that tell the paths to the answers, or by common words.

auto: by a model, or by paths where there is none.
"""


@dataclass(frozen=True)
class Wanted:
    """What is to be trained. ``api_model`` is the model that programs ask; empty: they ask none."""

    training: Sequence[TrainingQuery]
    validation: Sequence[TrainingQuery]
    plan: Plan
    most: int = MOST
    smallest: int = SMALLEST
    sandbox: str = "monty"
    api_model: str = ""
    grouping: Grouping = "auto"
    weigh: bool = True
    """Whether the first stage's systems get weights that are chosen on the questions, or equal ones."""
    only: str = ""
    """The id of the one group that is trained now; empty: all."""


def train_programs(
    kb: SkbKB,
    settings: Settings,
    wanted: Wanted,
    folder: Path,
    *,
    listener: Listener = lambda group, step: None,  # noqa: ARG005
    stopped: Callable[[], object] = lambda: False,
) -> Trained:
    """Train programs with the settings' model as the writer; a stand-in writes where there is none.

    Raises UsageError, CredentialsError, and what the model's calls raise; what was done until then is kept.
    """
    plan = wanted.plan
    parts = open_parts(
        kb,
        settings,
        sandbox=wanted.sandbox,
        api_model=wanted.api_model,
        without=plan.without,
        weights=_weights(kb, settings, wanted, folder),
    )
    most = 1 if "groups" in plan.without else wanted.most
    with parts.sandbox() as sandbox:
        writer = _writer(kb, settings, parts, sandbox)
        order = Order(
            kb.name,
            wanted.training,
            wanted.validation,
            plan,
            bound_to(kb, parts),
            {"writer": writer.name, "programs": wanted.api_model},
            {**(prompt_hashes("agent_retriever") if settings.model != OFFLINE else {}), **parts.prompts},
            {"most": most, "smallest": wanted.smallest, "by": wanted.grouping},
        )
        shop = Workshop(
            Bench(
                lambda query: parts.first(query, None),
                lambda program, query, nodes, given: sandbox.run(program, query, nodes, parts.api, parameters=given),
            ),
            writer,
            check=lambda program: sandbox.check(program, parts.api),
            checks=sandbox.checks,
            label=lambda node: kb.skb.nodes.label(kb.skb.number(node)),
            kind=lambda node: kb.skb.type_name(kb.skb.number(node)),
            named=lambda text: [mention.text for mention in read(text, kb.skb, "en").mentions],
            prices=Prices(price_of(settings, settings.model), price_of(settings, wanted.api_model)),
            stopped=stopped,
        )

        def grouped() -> Grouped:
            given = replace(wanted, most=most)
            return find_groups(kb, settings, given, plan.seed)

        return train(order, folder, shop, grouped, listener=listener, only=wanted.only)


def _weights(kb: SkbKB, settings: Settings, wanted: Wanted, folder: Path) -> Sequence[float]:
    """Of the first stage; a training of before that has none goes on without."""
    before = (folder / TRAINING).exists() and not (folder / FILE).exists()
    if not wanted.weigh or before:
        return ()
    return weigh(FirstStage(kb, settings), wanted.training, wanted.validation, folder).weights


def find_groups(kb: SkbKB, settings: Settings, wanted: Wanted, seed: int) -> Grouped:
    """Groups by the settings' model, or without one by words. Raises as the model's calls do."""
    training, validation = wanted.training, wanted.validation
    most, smallest = wanted.most, wanted.smallest
    if most == 1:
        return Grouped(tuple(one_group(training, validation)))
    how = wanted.grouping
    if how in ("words", "paths") or (how == "auto" and settings.model == OFFLINE):
        texts = [one.text for one in training]
        words = common_words(texts) if how == "words" else telling_words(texts, paths_to_answers(kb, training))
        found = groups_by_words(training, validation, most=most, smallest=smallest, seed=seed, words=words)
        return Grouped(tuple(found), words)
    from kbnav.models.calls import open_calls

    calls, trace = open_calls(settings), Trace()
    found = groups_by_model(
        training,
        validation,
        lambda prompt, own, purpose: calls.ask(prompt, own, purpose=purpose),
        trace,
        most=most,
        smallest=smallest,
        seed=seed,
    )
    cost = cost_of(trace.usage, price_of(settings, settings.model)) or 0.0
    return Grouped(tuple(found), (), trace.usage, trace.replayed, cost)


def paths_to_answers(kb: SkbKB, queries: Sequence[TrainingQuery]) -> list[str]:
    """For each query the likeliest path of relations from what it names to its answers; empty where there is none."""
    matcher = NodeMatcher(kb.skb, "exact")
    found = []
    for query in queries:
        labels = [example.label for example in examples([Asked(query.text, query.answers)], kb.skb, matcher)]
        found.append(max(labels[0].items(), key=lambda pair: (pair[1], str(pair[0])))[0] if labels else None)
    return [str(path) if path else "" for path in found]


def _writer(kb: SkbKB, settings: Settings, parts: Parts, sandbox: Sandbox) -> Writer:
    if settings.model == OFFLINE:
        return StandInWriter(parts.api.functions)
    from kbnav.models.calls import open_calls

    return ModelWriter(open_calls(settings), described(kb, parts, sandbox.language))
