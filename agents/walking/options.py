"""Options of the agents that walk along links, as ``--set`` gives them, saved with every run; and the planner named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kbnav.encoders.trained import read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.matching import Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import open_calls
from kbnav.planning.paths import InContext, Planner, PlannerName, PlanOptions, encoder_of
from kbnav.planning.ranker import Ranker
from kbnav.planning.seq2seq import Seq2Seq
from kbnav.settings.model import Settings
from kbnav.settings.systems import FromGold, Options

SHORT = 21
"""Links up to which it costs more to ask a model which to keep than it saves: see docs/walking-agents.md."""


class PresetOptions(Options):
    """Options of the agents that can be as their papers have them."""

    preset: Literal["kbnav", "paper"] = "kbnav"
    """``paper``: defaults that are the paper's, without what kbnav adds."""
    _paper: ClassVar[Mapping[str, Any]] = {}

    @model_validator(mode="before")
    @classmethod
    def _as_in_the_paper(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        # Who sets k means it: a list that is longer is not shown whole.
        own = {"short": 0} if "k" in given and "short" in cls.model_fields else {}
        return {**own, **(cls._paper if given.get("preset") == "paper" else {}), **given}


class DocumentOptions(PresetOptions):
    """Options of the agents whose papers know no documents."""

    documents: Literal["shown", "none"] = "shown"
    """``none``: the model sees nothing of the nodes' documents."""


class DemonstratedOptions(Options):
    """Options of the agents whose prompts may have examples."""

    demonstrations: str = ""
    """Examples for the model: a JSON or TOML file of question, steps and answer."""


class PasemiqaOptions(PlanOptions, PresetOptions, DemonstratedOptions):
    """The paper varies both ``k`` and ``rounds`` (section 5.3) and does not say which it uses elsewhere."""

    _paper: ClassVar[Mapping[str, Any]] = {"short": 0, "query": "cosine", "hops": 2}
    k: int = Field(default=10, ge=1, le=50)
    """Nodes that are kept at each search, query and match by meaning (K)."""
    query: Literal["fused", "cosine"] = "fused"
    """By words and meaning, or by meaning alone as in the paper."""
    rounds: int = Field(default=10, ge=1, le=50)
    """All the rounds it may take (T)."""
    short: int = Field(default=SHORT, ge=0)
    """Links of one node up to so many are all shown, without a call that asks which to keep; 0 where ``k`` is given."""

    @property
    def nearest(self) -> int:
        """Nodes that are matched by meaning."""
        return self.k


class RogOptions(PlanOptions, DocumentOptions):
    """Without a plan there is nothing to retrieve."""

    _paper: ClassVar[Mapping[str, Any]] = {"documents": "none", "hops": 2}

    planner: PlannerName = "in-context"
    """What plans the relation paths; not ``none``."""
    paths: int = Field(default=3, ge=1, le=10)
    """Paths of the plan that are retrieved."""
    tokens: int = Field(default=4_000, ge=20)
    """Tokens that the instances of the paths may take."""

    @field_validator("planner")
    @classmethod
    def _is_one(cls, value: PlannerName) -> PlannerName:
        if value == "none":
            raise ValueError("rog answers from a plan's paths; it needs one of in-context, ranker, seq2seq")
        return value


class TogOptions(DocumentOptions, DemonstratedOptions):
    """Depth, width and what scores are by default the authors'."""

    _paper: ClassVar[Mapping[str, Any]] = {"documents": "none", "exploration": 0.4, "links": 0}

    depth: int = Field(default=3, ge=1, le=5)
    """Links that a path has at most."""
    width: int = Field(default=3, ge=1, le=10)
    """Entities that the beam keeps."""
    links: int = Field(default=20, ge=0, le=50)
    """Links of a depth that are kept and judged; 0: as many as ``width``, as the authors do."""
    prune: Literal["model", "bm25", "embedding"] = "model"
    """What scores relations and links."""
    matching: Variant = "hybrid"
    """How the nodes that the question names are found."""
    reasoning: Literal["links", "relations"] = "links"
    """``relations`` is the authors' ToG-R: links are drawn, not scored, and chains of relations are judged."""
    exploration: float = Field(default=0.0, ge=0, le=2)
    """The temperature at which relations and links are scored; the authors' is 0.4."""
    topics: Literal["question", "gold-results"] = "question"
    """Where it begins; ``gold-results``: at up to 20 entities of gold answers (SPINACH, section 5.3), in ``eval``."""

    @property
    def from_gold(self) -> FromGold:
        """See ``Options``."""
        return "results" if self.topics == "gold-results" else ""


class OneQueryOptions(Options):
    """Options of ``one-query``."""

    entities: Literal["none", "gold"] = "none"
    """``gold``: those of the gold query are in the prompt (SPINACH, section 5.3, after WikiSP), in ``eval`` alone."""

    @property
    def from_gold(self) -> FromGold:
        """See ``Options``."""
        return "entities" if self.entities == "gold" else ""


class GogOptions(DocumentOptions, DemonstratedOptions):
    """Options of ``gog``."""

    _paper: ClassVar[Mapping[str, Any]] = {"documents": "none", "short": 0}

    k: int = Field(default=10, ge=1, le=50)
    """Neighbours that the model keeps of one node."""
    matching: Variant = "hybrid"
    """How the nodes that the question names are found."""
    short: int = Field(default=SHORT, ge=0)
    """As of ``pasemiqa``: 0 where ``k`` is given."""
    samples: int = Field(default=3, ge=1, le=10)
    """How often facts are asked for; what all these replies name is verified together before it counts."""


def open_planner(options: PlanOptions, skb: SKB, settings: Settings) -> Planner | None:
    """The planner that options name, if any, for an open SKB; ``settings`` name the model that ``in-context`` asks.

    A planner trained by name alone has met no node on a question that names none, and there learned ``text``; given
    nodes found by meaning, it has never learned that ``text`` may be right. Its plans say so.

    Raises UsageError where what the planner needs is missing or was made for another SKB, DataError where that is
    damaged, and CredentialsError.
    """
    if options.planner == "none":
        return None
    if options.planner == "in-context":
        return InContext(skb, open_calls(settings), options.hops)
    if not options.trained:
        raise UsageError(f"the planner {options.planner} must be trained first: kbnav train {options.planner}")
    folder = Path(options.trained)
    own = read_card(folder, "ranker", "seq2seq").settings["matching"]
    said = f"The planner was trained with matching={own}, and these nodes are matched by {options.matching}."
    notes = (said,) if own != options.matching else ()
    if options.planner == "ranker":
        return Ranker.load(folder, skb, encoder_of(skb), notes)
    return Seq2Seq.load(folder, skb, notes)
