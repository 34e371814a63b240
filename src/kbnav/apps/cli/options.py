"""The options that several commands share, each described once, and the settings that they give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from kbnav.settings.model import Settings, load_settings
from kbnav.settings.systems import find, parse_set

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB


def option(flag: str, metavar: str, text: str, **limits: float) -> Any:
    """An option with a value: its flag, what stands for the value in help, its help, and ``min`` or ``max``."""
    return typer.Option(flag, metavar=metavar, help=text, **limits)  # type: ignore[arg-type]


def flag(name: str, text: str, *short: str) -> Any:
    """A switch, or an option whose values are named in its help: its flag, its help, and a short form."""
    return typer.Option(name, *short, help=text)


def argument(metavar: str, text: str) -> Any:
    """An argument: what stands for it in help, and its help."""
    return typer.Argument(metavar=metavar, help=text)


Many = list[str] | None
"""Of an option that may be repeated."""
_KB = "mini or demo (bundled), wikidata (live), the folder of an SKB or a mirror, a URL, or a name in kbnav.toml"
Kb = Annotated[str | None, option("--kb", "KB", f"{_KB}.")]
Skb = Annotated[str, option("--kb", "SKB", "Folder of the SKB, or demo.")]
Kbs = Annotated[Many, option("--kb", "KB", f"{_KB}; repeatable, to ask several at once.")]
Model = Annotated[str | None, option("--model", "MODEL", "offline (none), replay:RUN.json, or a model such as gpt-4o.")]
BaseUrl = Annotated[str | None, option("--base-url", "URL", "An OpenAI-compatible endpoint; default: OpenAI's.")]
System = Annotated[
    str | None, option("--system", "SYSTEM", "What answers (see kbnav systems), or your own as module:function.")
]
Given = Annotated[
    Many, option("--set", "NAME=VALUE", "An option of the system, or a setting, as in budget.steps=9; repeatable.")
]
Json = Annotated[bool, flag("--json", "Print JSON, for programs.")]
Dataset = Annotated[str, argument("DATASET", "A dataset's name (eval dataset list), FORMAT:FILE, or your own .jsonl.")]
Datasets = Annotated[list[str], argument("DATASET", "Names, FORMAT:FILE, or .jsonl files.")]
RunFolder = Annotated[Path, argument("RUN", "Folder of a run.")]
RunName = Annotated[str, argument("RUN", "A run's id, the start of one, the path of its file, or last.")]
Host = Annotated[str | None, option("--host", "ADDRESS", "Address to listen on; default: 127.0.0.1.")]
Port = Annotated[int | None, option("--port", "PORT", "0 picks a free one; default: 8080.")]
Jobs = Annotated[int, option("--jobs", "N", "Questions asked at once.", min=1, max=256)]
Only = Annotated[Path | None, option("--only", "FILE", "File with the ids of the questions, one a line.")]
Retry = Annotated[bool, flag("--retry-failed", "Ask failed questions again.")]
Seed = Annotated[int, option("--seed", "N", "The same seed draws the same.")]
Limit = Annotated[int | None, option("--limit", "N", "Only the first N questions.", min=1)]
MaxCost = Annotated[float | None, option("--max-cost", "DOLLARS", "Stop at so many US dollars in all.", min=0)]
Workers = Annotated[int | None, option("--workers", "N", "With --on ray; default: one for each processor.", min=1)]


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
    notes: Annotated[list[Path] | None, option("--notes", "FILE", "Notes on the KB for the model; repeatable.")] = None

    def settings(self) -> Settings:
        """The settings under these options. Raises UsageError."""
        return load(
            given=self.given, system=self.system, kb=self.kb or None, model=self.model, base_url=self.base_url,
            notes=self.notes or None,
        )  # fmt: skip


def load(given: list[str] | None = None, system: str | None = None, **named: Any) -> Settings:
    """The settings under ``--set`` pairs and named values, of which None is left out. Raises UsageError."""
    named = {name: value for name, value in named.items() if value is not None}
    if not given:
        return load_settings(**named)
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
        if isinstance(kind, type) and is_dataclass(kind):
            types = get_type_hints(kind, include_extras=True)
            own = inspect.signature(kind).parameters.values()
            inner = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=types[one.name]) for one in own]
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
