"""Planners by name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from kbnav import encoders
from kbnav.encoders import Encoder
from kbnav.encoders.trained import read_card
from kbnav.errors import UsageError
from kbnav.knowledge.skb.matching import NEAREST, Variant
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls, open_calls
from kbnav.planning import paths as mending
from kbnav.planning.paths import TEXT, Hop, PathSchema, Plan, Planner, example_edge, parse_paths, path_text
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trajectory import Trace
from kbnav.settings.model import Settings
from kbnav.settings.systems import Options

Name = Literal["none", "in-context", "ranker", "seq2seq"]


def encoder_of(skb: SKB) -> Encoder:
    """The encoder of the SKB's vectors, else minilm. Raises UsageError where there is neither."""
    if skb.vectors is not None:
        return skb.vectors.encoder
    found = encoders.default(lambda _: None)
    if found is None:
        raise UsageError(f"the planner ranker needs an encoder: {skb.meta.name} has no vectors and minilm is not there")
    return found


class PlanOptions(Options):
    """Options of every system with a plan."""

    planner: Name = "none"
    """What plans the relation paths."""
    trained: str = ""
    """Folder of a trained planner (``kbnav train ranker``); given alone, it is a ``ranker``."""
    matching: Variant = "hybrid"
    """How the nodes that the question names are found."""
    hops: int = Field(default=mending.LONGEST, ge=1, le=4)
    """Links of a path that ``in-context`` plans at most; trained planners know paths of 2."""

    @property
    def nearest(self) -> int:
        """Nodes that are matched by meaning."""
        return NEAREST

    @model_validator(mode="before")
    @classmethod
    def _named_by_what_is_trained(cls, given: Any) -> Any:
        return {"planner": "ranker", **given} if isinstance(given, dict) and given.get("trained") else given

    @field_validator("trained")
    @classmethod
    def _of_one_that_learns(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("planner") in ("none", "in-context"):
            raise ValueError(f"the planner {info.data['planner']} is not trained; ranker and seq2seq are")
        return value


MOST_EDGES = 80
"""Edges between types that a prompt shows, the most frequent first."""
MOST_NODES = 20
MOST_PATHS = 3
"""Paths that are asked for, and kept."""


class InContext:
    """The planner. The model's paths count 1, 1/2, 1/3 in its order."""

    name = "in-context"

    def __init__(self, skb: SKB, calls: ModelCalls, longest: int) -> None:
        self._skb, self._calls, self._longest = skb, calls, longest
        self._schema = PathSchema.of(skb)

    @property
    def prompts(self) -> dict[str, str]:
        """SHA-256 of the prompt's file."""
        return prompt_hashes("planner")

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        """The model's paths, checked against the schema; a note where there are none. Raises as ``ModelCalls.ask``."""
        numbers = [self._skb.number(node) for node in nodes]
        starts = {self._skb.type(number) for number in numbers}
        reply = self._calls.ask(self._prompt(question, numbers), trace or Trace(), purpose="relation paths")
        proposed = [(path, 1 / rank) for rank, path in enumerate(parse_paths(reply)[:MOST_PATHS], 1)]
        if not proposed:
            return Plan(notes=("the model's reply has no path",))
        return mending.checked(proposed, self._schema, starts, longest=self._longest)

    def _prompt(self, question: str, nodes: Sequence[int]) -> str:
        first, second = Hop("relation"), Hop("other relation", "in")
        return render(
            "planner/paths.md",
            question=question,
            edges=self._shown,
            more=max(0, len(self._schema.edges) - MOST_EDGES),
            nodes=[{"name": self._skb.name(node), "kind": self._skb.type(node)} for node in nodes[:MOST_NODES]],
            one=path_text([first]),
            two=path_text([first, second]),
            by_text=path_text(TEXT),
            longest=self._longest,
            most=MOST_PATHS,
        )

    @cached_property
    def _shown(self) -> list[dict[str, Any]]:
        shown = sorted(self._schema.edges, key=lambda edge: -edge.edges)[:MOST_EDGES]
        return [{**one._asdict(), "example": example_edge(self._skb, *one[:3])} for one in shown]


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
    notes: tuple[str, ...] = ()
    matching = read_card(folder, "ranker", "seq2seq").settings["matching"]
    if matching != options.matching:
        said = f"with matching={matching}, and these nodes are matched by {options.matching}"
        notes = (f"The planner was trained {said}.",)
    if options.planner == "ranker":
        from kbnav.planning.ranker import Ranker

        return Ranker.load(folder, skb, encoder_of(skb), notes)
    from kbnav.planning.seq2seq import Seq2Seq

    return Seq2Seq.load(folder, skb, notes)
