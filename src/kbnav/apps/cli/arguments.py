"""The options that several commands share, each described once."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from kbnav.apps.cli import completion

if TYPE_CHECKING:
    from kbnav.knowledge.skb.kb import SkbKB
    from kbnav.settings.model import Settings

R = TypeVar("R")

KbOption = Annotated[
    str | None,
    typer.Option(
        "--kb",
        metavar="KB",
        autocompletion=completion.kbs,
        help="What is asked: mini or demo (bundled), wikidata (live), the folder of an SKB or a mirror, or a URL.",
    ),
]
KbsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kb",
        metavar="KB",
        autocompletion=completion.kbs,
        help="What is asked: mini or demo (bundled), wikidata (live), the folder of an SKB or a mirror, or a URL; "
        "given several times, all of them together.",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help="offline, replay:RUN.json, or a chat model (see kbnav models)."),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Any OpenAI-compatible endpoint; default: OpenAI's."),
]
LanguageOption = Annotated[
    str | None,
    typer.Option(
        "--language",
        metavar="CODE",
        help="Language of question, labels and answer, as in de; default: the question's; of data sets: en.",
    ),
]
SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="SYSTEM",
        autocompletion=completion.system_names,
        help="Who answers (see kbnav systems), or one's own as module:function; default: what fits the KB.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="An option of the system, as in top_v=10 (see kbnav systems NAME); may be repeated.",
    ),
]
ToolOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tool", metavar="TOOL", help="A tool of one's own that is offered too, as module:function; repeatable."
    ),
]
WITHOUT = "rollback, premature_finish, hint, pruning, kg or drf (of kar), or a tool; several with commas."
WithoutOption = Annotated[list[str] | None, typer.Option("--without", metavar="PART", help=f"Leave out {WITHOUT}")]
VerifyOption = Annotated[
    str | None,
    typer.Option(
        "--verify",
        metavar="off|rules|model",
        help="What checks an answer before it is given: cheap rules (the default), also the model, or nothing.",
    ),
]
ConfidenceOption = Annotated[
    float | None,
    typer.Option("--min-confidence", metavar="SHARE", min=0, max=1, help="Withhold an answer that is less sure."),
]
DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="FOLDER", help="Folder of the benchmarks' published files.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", metavar="N", min=1, help="Processes of the cluster; default: as its processors."),
]


class Place(StrEnum):
    """Where work is done."""

    here = "here"
    ray = "ray"


@dataclass(frozen=True)
class Asked:
    """What is asked, and which model answers."""

    kb: KbsOption = None
    model: ModelOption = None
    base_url: BaseUrlOption = None

    def settings(self, **more: object) -> Settings:
        """The settings under these options and ``more``. Raises UsageError."""
        return load(kb=self.kb or None, model=self.model, base_url=self.base_url, **more)


@dataclass(frozen=True)
class AskedOf(Asked):
    """The same, of a system with options, in a language."""

    language: LanguageOption = None
    system: SystemOption = None
    chosen: SetOption = None
    tools: ToolOption = None
    notes: Annotated[
        list[Path] | None,
        typer.Option("--notes", metavar="FILE", help="Notes and examples of the KB (TOML)."),
    ] = None
    escalate: Annotated[
        str | None,
        typer.Option("--escalate", metavar="MODEL", help="A stronger model, asked where the answer fails the checks."),
    ] = None

    def settings(self, **more: object) -> Settings:
        """The settings under these options and ``more``. Raises UsageError."""
        own = {"language": self.language, "options": self.options, "with_tools": self.tools or None}
        more = {"escalate": self.escalate, "notes": self.notes or None} | more
        return super().settings(**own | more)

    @property
    def options(self) -> dict[str, Any] | None:
        """What ``--set`` was given; None leaves the settings' own."""
        from kbnav.settings.options import parse_set

        return parse_set(self.chosen) if self.chosen else None


@dataclass(frozen=True)
class AskedWithout(AskedOf):
    """The same, less some of its tools and rules."""

    without: WithoutOption = None
    verify: VerifyOption = None
    min_confidence: ConfidenceOption = None
    max_dollars: Annotated[
        float | None,
        typer.Option(
            "--max-dollars", metavar="DOLLARS", min=0, help="What one question may cost; then the best so far."
        ),
    ] = None
    max_seconds: Annotated[
        float | None,
        typer.Option("--max-seconds", metavar="SECONDS", min=0, help="How long one may take; then the best so far."),
    ] = None

    def settings(self, **more: object) -> Settings:
        """The settings under these options and ``more``. Raises UsageError."""
        from kbnav.evaluation.evaluate import leave_out

        chosen = {"by": self.verify, "min_confidence": self.min_confidence}
        checks = {name: value for name, value in chosen.items() if value is not None}
        limits = {"dollars": self.max_dollars, "seconds": self.max_seconds}
        budget = {name: value for name, value in limits.items() if value is not None}
        own = {name: group for name, group in (("checks", checks), ("budget", budget)) if group}
        return leave_out(super().settings(**own | more), parts(self.without))


def parts(without: list[str] | None) -> list[str]:
    """The parts that ``--without`` names."""
    return [name.strip() for names in without or [] for name in names.split(",") if name.strip()]


@dataclass(frozen=True)
class DatasetGiven:
    """One dataset, by position or by the option."""

    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET",
            autocompletion=completion.datasets,
            help="A dataset's name (eval dataset list), FORMAT:FILE, or one's own .jsonl.",
        ),
    ] = None
    dataset_option: Annotated[str | None, typer.Option("--dataset", "--questions", metavar="DATASET", hidden=True)] = (
        None
    )

    @property
    def name(self) -> str:
        """Raises typer.BadParameter where none is named, or two are."""
        given = {name for name in (self.dataset, self.dataset_option) if name}
        if len(given) != 1:
            raise typer.BadParameter("name one dataset; kbnav eval dataset list prints those there are")
        return given.pop()


def load(**overrides: object) -> Settings:
    """The settings, read when a command needs them."""
    from kbnav.settings.model import load_settings
    from kbnav.settings.sources import misspelled_variables

    for line in misspelled_variables():
        print(f"kbnav: {line}", file=sys.stderr)
    return load_settings(**overrides)


@contextmanager
def open_skb(settings: Settings, who: str) -> Iterator[SkbKB]:
    """The SKB that ``settings`` name, open. Raises UsageError, which names ``who`` needs one, for another."""
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb

    with open_kb(settings) as kb:
        yield as_skb(kb, who)


def grouped(command: Callable[..., R]) -> Callable[..., R]:
    """A command whose parameters of a dataclass's type become options, one for each field of it."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    flat: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        kind = parameter.annotation
        inner = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        if is_dataclass(kind):
            types = get_type_hints(kind, include_extras=True)  # a field's type is read where its class is written
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

    def expanded(**given: Any) -> R:
        values = {name: kind(**{one: given.pop(one) for one in inner}) for name, (kind, inner) in groups.items()}
        return command(**given, **values)

    expanded.__signature__ = signature.replace(parameters=flat)  # type: ignore[attr-defined]
    expanded.__annotations__ = {one.name: one.annotation for one in flat}
    expanded.__name__, expanded.__doc__, expanded.__module__ = command.__name__, command.__doc__, command.__module__
    return expanded
