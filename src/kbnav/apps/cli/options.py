"""The options that several commands share, each described once, and the settings that they give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.settings.model import Settings


_KB = "A knowledge base: mini or demo (bundled), wikidata (live), the folder of an SKB or a mirror, or a URL"
Kb = Annotated[str | None, typer.Option("--kb", metavar="KB", help=f"{_KB}.")]
Skb = Annotated[str, typer.Option("--kb", metavar="SKB", help="Folder of the SKB, or demo.")]
Kbs = Annotated[
    list[str] | None,
    typer.Option("--kb", metavar="KB", help=f"{_KB}; repeatable, to ask several at once."),
]
Model = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="offline, replay:RUN.json, or a chat model of the endpoint."),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint; default: OpenAI's."),
]
System = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="SYSTEM",
        help="What answers (see kbnav systems), or your own as module:function; default: what fits the KB.",
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the system (see kbnav systems NAME), or a setting, as in budget.steps=9; repeatable.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Dataset = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A dataset's name (eval dataset list), FORMAT:FILE, or your own .jsonl.",
    ),
]
Datasets = Annotated[
    list[str],
    typer.Argument(metavar="DATASET", help="Names, FORMAT:FILE, or .jsonl files."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
RunName = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run's id, the start of one, the path of its file, or last."),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default: 127.0.0.1.")
]
Port = Annotated[int | None, typer.Option("--port", metavar="PORT", help="0 picks a free one; default: 8080.")]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=256, help="Questions asked at once.")]
Only = Annotated[
    Path | None, typer.Option("--only", metavar="FILE", help="File with the ids of the questions, one a line.")
]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Ask failed questions again.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed draws the same.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the first N questions.")]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", metavar="DOLLARS", min=0, help="Stop at so many US dollars in all.")
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="With --on ray, its processes; default: as processors."),
]


Place = Literal["here", "ray"]
"""Where work is done."""


@dataclass(frozen=True)
class Asking:
    """The options ``--kb``, ``--model``, ``--base-url``, ``--system``, ``--set`` and ``--notes``."""

    kb: Kbs = None
    model: Model = None
    base_url: BaseUrl = None
    system: System = None
    given: Given = None
    notes: Annotated[
        list[Path] | None, typer.Option("--notes", metavar="FILE", help="Notes on the KB for the model; repeatable.")
    ] = None

    def settings(self, **more: Any) -> Settings:
        """The settings under these options and ``more``. Raises UsageError."""
        return load(
            given=self.given, system=self.system, kb=self.kb or None, model=self.model, base_url=self.base_url,
            notes=self.notes or None, **more,
        )  # fmt: skip


def load(given: list[str] | None = None, system: str | None = None, **named: Any) -> Settings:
    """The settings under ``--set`` pairs and named values, of which None is left out. Raises UsageError."""
    from kbnav.settings.model import load_settings

    named = {name: value for name, value in named.items() if value is not None}
    if not given:
        return load_settings(**named)
    from kbnav.settings.systems import find, parse_set

    options, settings = parse_set(given, find(system).options_type().model_fields if system else ())
    return load_settings(**settings | ({"options": options} if options else {}) | named)


@contextmanager
def open_skb(settings: Settings, who: str) -> Iterator[SkbKB]:
    """The SKB that ``settings`` name, open. Raises UsageError, which says ``who`` needs one, for another KB."""
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb

    with open_kb(settings) as kb:
        yield as_skb(kb, who)


def flattened(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command in which each field of a parameter that is a dataclass is a parameter, and so an option."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        kind = parameter.annotation
        inner = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        if is_dataclass(kind):
            types = get_type_hints(kind, include_extras=True)
            inner = [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=inspect.Parameter.empty if one.default is MISSING else one.default,
                    annotation=types[one.name],
                )
                for one in fields(kind)
            ]
            groups[parameter.name] = (kind, [one.name for one in inner])
        flat += inner
    if not groups:
        return command

    def expanded(**given: Any) -> Any:
        values = {name: kind(**{one: given.pop(one) for one in inner}) for name, (kind, inner) in groups.items()}
        return command(**given, **values)

    expanded.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    expanded.__annotations__ = {one.name: one.annotation for one in flat}
    expanded.__name__, expanded.__doc__, expanded.__module__ = command.__name__, command.__doc__, command.__module__
    return expanded
