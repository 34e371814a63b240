"""What programs are run with over one knowledge base: the first stage, the API, the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.planning.schema import PathSchema
from kbnav.programs.api import API_VERSION, Api
from kbnav.programs.candidates import SIZE, FirstStage, FirstStageOptions
from kbnav.prompts import prompt_hashes
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.programs.sandbox import Sandbox

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
