"""The first stage: which nodes a program ranks, and the ranking that stands where a program fails.

AvaTaR's programs rank the first 50 nodes of ``vss``, and its candidates on STaRK's Prime hold an answer for 52 % of the
queries; no program passes that. Here the candidates are the best of three systems that miss different nodes: a plan's
relation paths, words, and vectors. ``Recall`` says what that leaves possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kbnav.answers.tables import Ranking
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.metrics.ranking import ranking_scores, ranks_in_lists
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.planning.paths import PathSchema
from kbnav.programs.api import API_VERSION, Api
from kbnav.prompts import prompt_hashes
from kbnav.retrieval.base import ComposedOptions, build_stage
from kbnav.retrieval.rrf import RRF, RRFOptions
from kbnav.runs.journal import write_whole
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.programs.sandbox import Sandbox


SIZE = 200
"""Candidates of a query."""
_NEEDS_VECTORS = ("plan-rank", "vss")


KEPT = 100
"""Nodes of a ranking that are scored, as many as a run keeps."""


@dataclass(frozen=True)
class TrainingQuery:
    """A question with its answers, node ids. ``template`` is what it was made from, empty where that is not known."""

    id: str
    text: str
    answers: tuple[str, ...]
    template: str = ""


class FirstStageOptions(ComposedOptions):
    """Options of the first stage."""

    of: tuple[str, ...] = Field(default=("plan-rank", "bm25", "vss"), min_length=1)
    """The systems whose rankings are united; those by vectors are left out where the SKB has none."""
    size: int = Field(default=SIZE, ge=1)
    """Candidates of a query, and nodes of each ranking that count."""

    weights: tuple[float, ...] = ()
    """How much each of those that are there counts; none given: 1."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return self.of

    def described(self) -> dict[str, Any]:
        """As plain data; weights only where there are some, as in folders of before."""
        return self.model_dump(mode="json", exclude=None if self.weights else {"weights"})


class FirstStage:
    """The union of several rankings, cut to its size by the sums of their reciprocal ranks."""

    name = "first-stage"

    def __init__(self, kb: SkbKB, settings: Settings, options: FirstStageOptions | None = None) -> None:
        """Raises UsageError for an unknown system, and where the SKB has no index that one of them needs."""
        self.options = options or FirstStageOptions()
        self.of = tuple(name for name in self.options.of if _can(name, kb))
        if not self.of:
            raise UsageError(f"{kb.name} has neither texts nor vectors indexed: build it with one of them")
        stages = [build_stage(name, kb, settings, self.options) for name in self.of]
        fusion = RRFOptions(of=self.of, weights=self.options.weights, depth=self.options.size)
        self._fused = RRF(kb.skb, stages, fusion)

    @property
    def prompts(self) -> Mapping[str, str]:
        """Those of its systems."""
        return self._fused.prompts

    def retrieve(self, query: str, k: int = SIZE, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. The ids of the best ``options.size`` are a program's candidates."""
        return self._fused.retrieve(query, min(k, self.options.size), trace)

    def rankings(self, query: str) -> list[Ranking]:
        """What each of its systems finds."""
        return [stage.retrieve(query, self.options.size) for stage in self._fused.stages]


def _can(name: str, kb: SkbKB) -> bool:
    if name == "bm25":
        return kb.skb.text is not None
    return kb.skb.vectors is not None or name not in _NEEDS_VECTORS


@dataclass(frozen=True)
class Recall:
    """What the best program could reach with the candidates it is given."""

    queries: int = 0
    mean: float = 0.0
    """The share of a query's answers that are candidates, over all queries."""
    any: float = 0.0
    """The share of queries with an answer among their candidates: no program has a higher hit@k."""


def oracle_recall(stage: Iterable[tuple[Collection[str], Collection[str]]]) -> Recall:
    """Of the candidates and the answers of each query; one without answers counts as found nowhere, as in metrics."""
    shares = [len(set(answers) & set(candidates)) / max(1, len(set(answers))) for candidates, answers in stage]
    if not shares:
        return Recall()
    return Recall(len(shares), sum(shares) / len(shares), sum(share > 0 for share in shares) / len(shares))


FILE = "first-stage.json"
WEIGHTS = (1.0, 0.5, 0.25, 0.125, 0.0)
"""What a system may count, the best of them 1. One of weight 0 still fills up what the others leave empty."""
QUESTIONS = 200
"""Of each split, from the first on."""


class Weighting(BaseModel):
    """``first-stage.json``: the weights of the systems, and what the fusion scores on the validation questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    of: tuple[str, ...]
    weights: tuple[float, ...]
    mrr: float
    best_member: float
    """The MRR of the best of its systems by itself."""
    equal: float
    """The MRR with equal weights."""


@dataclass(frozen=True)
class Rankings:
    """What each system of a first stage finds for some questions, and the questions' answers."""

    found: Sequence[Sequence[Sequence[str]]]
    """By question, then by system: ids, best first."""
    answers: Sequence[Sequence[str]]
    size: int
    """Candidates that are kept."""

    @classmethod
    def of(cls, stage: FirstStage, queries: Sequence[TrainingQuery]) -> Rankings:
        """Asks every system. Raises as they do."""
        asked = queries[:QUESTIONS]
        found = [[ranking.ids for ranking in stage.rankings(query.text)] for query in asked]
        return cls(found, [query.answers for query in asked], stage.options.size)

    def fused(self, weights: Sequence[float]) -> list[list[str]]:
        """The candidates of each question."""
        return [
            [node for node, _ in reciprocal_rank_fusion(lists, weights=weights, limit=self.size)]
            for lists in self.found
        ]

    def mrr(self, weights: Sequence[float]) -> float:
        """Of the fusion."""
        return self._mrr(self.fused(weights))

    def members(self) -> list[float]:
        """MRR of each system by itself."""
        return [self._mrr(list(lists)) for lists in zip(*self.found, strict=True)]

    def worth(self, weights: Sequence[float]) -> float:
        """MRR, and the share of questions with an answer among the candidates, which no program can pass."""
        fused = self.fused(weights)
        return self._mrr(fused) + oracle_recall(list(zip(fused, self.answers, strict=True))).any

    def _mrr(self, lists: Sequence[Sequence[str]]) -> float:
        cut = [list(one[:KEPT]) for one in lists]
        return float(ranking_scores(ranks_in_lists(cut, self.answers)).means()["mrr"])


def choose_weights(of: Sequence[str], training: Rankings, validation: Rankings) -> Weighting:
    """The weights worth most on the training questions, of those no worse in MRR than the best system on validation.

    That system by itself is one of them. Of equal ones the first stands, which is nearest to equal weights.
    """
    ways = sorted((one for one in product(WEIGHTS, repeat=len(of)) if max(one) == 1), key=lambda one: -sum(one))
    scores = {way: validation.mrr(way) for way in ways}
    members = validation.members()
    best = max(members)
    alone = tuple(float(place == members.index(best)) for place in range(len(of)))
    allowed = [way for way in ways if scores[way] >= best] or [alone]
    chosen = max(allowed, key=training.worth)
    return Weighting(of=tuple(of), weights=chosen, mrr=scores[chosen], best_member=best, equal=scores[ways[0]])


def weigh(
    stage: FirstStage, training: Sequence[TrainingQuery], validation: Sequence[TrainingQuery], folder: Path
) -> Weighting:
    """The weights that ``folder`` holds already, or those that are chosen now and kept there. Raises DataError."""
    path = folder / FILE
    try:
        return Weighting.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        found = choose_weights(stage.of, Rankings.of(stage, training), Rankings.of(stage, validation))
    except (OSError, ValidationError) as error:
        raise DataError(f"{path}: not the weights of a first stage: {error}") from error
    write_whole(path, found.model_dump_json(indent=1) + "\n")
    return found


RELATIONAL = ("relations_text", "documents_of", "related", "relations_of", "follow_path")
"""Functions of the API that see relations."""


@dataclass(frozen=True)
class Parts:
    """See the module. ``first`` gives candidates' ids, best first; ``sandbox`` makes a sandbox, to be entered."""

    first: Callable[[str, Trace | None], Sequence[str]]
    api: Api
    sandbox: Callable[[], Sandbox]
    described: Mapping[str, Any]
    """The first stage."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Those of the functions that ask a model, where there is one."""


def open_parts(
    kb: SkbKB,
    settings: Settings,
    *,
    candidates: Sequence[str] = (),
    depth: int = SIZE,
    sandbox: str = "monty",
    api_model: str = "",
    without: Collection[str] = (),
    weights: Sequence[float] = (),
) -> Parts:
    """The parts; programs ask ``api_model``, and none where it is empty. ``weights`` are of the first stage's systems.

    Raises UsageError, CredentialsError.
    """
    from kbnav.programs.sandbox import open_sandbox

    model = None
    if api_model and "model-functions" not in without:
        from kbnav.models.calls import open_calls

        model = open_calls(settings.asking(api_model))
    stage = FirstStage(
        kb, settings, FirstStageOptions(candidates=tuple(candidates), size=depth, weights=tuple(weights))
    )
    api = Api(kb, model=model, without=RELATIONAL if "relations" in without else ())
    return Parts(
        lambda query, trace: stage.retrieve(query, depth, trace).ids,
        api,
        lambda: open_sandbox(sandbox),
        {"of": list(stage.of), "options": stage.options.described()},
        {**stage.prompts, **(prompt_hashes("programs") if model else {})},
    )


def bound_to(kb: SkbKB, parts: Parts) -> dict[str, Any]:
    """What programs depend on, by name, as plain data."""
    return {
        "api": API_VERSION,
        "schema": PathSchema.of(kb.skb).sha256,
        "encoder": kb.skb.meta.encoder,
        "first stage": dict(parts.described),
    }
