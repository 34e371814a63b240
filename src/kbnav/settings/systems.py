"""One registry of everything that answers: agents and retrievers, those of other packages too.

It knows nobody's insides. An entry says in words what a system is, and by ``module:attribute`` where it is built, so
that listing systems imports none of them. What is built is an ``Agent`` (``kbnav.agents.common.agent``), asked through
``kbnav.sessions.session``, or a ``Retriever`` (``kbnav.retrieval.base``).

A name is looked up here first, then among the entry points of the group ``kbnav.systems``; a name with a colon in it is
a reference to a builder of one's own, ``my_agent:build``.
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, field_validator

from kbnav.errors import UsageError
from kbnav.settings.model import OFFLINE, Settings, Strict
from kbnav.settings.plugins import did_you_mean, load, load_point, name_of, origin, points

FromGold = Literal["", "entities", "results"]
GIVEN: Mapping[FromGold, str] = MappingProxyType(
    {"entities": "the gold query's entities", "results": "entities of the gold answer"}
)
"""What of a gold answer a system can be given, in words."""
INNER = "stages"
"""The option of a system made of others that holds their options, by name."""


class Options(Strict):
    """What the options of every system share: texts become numbers and truth values, commas make lists."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _split(cls, value: Any, info: Any) -> Any:
        annotation = cls.model_fields[info.field_name].annotation
        if isinstance(value, str) and getattr(annotation, "__origin__", None) is tuple:
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @property
    def from_gold(self) -> FromGold:
        """What the system is given of each question's gold answer, which only an evaluation has; empty: nothing."""
        return ""


O = TypeVar("O", bound=Options)  # noqa: E741


def parse_set(pairs: Sequence[str], own: Container[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a system by name, and the settings, those of groups nested, that ``name=value`` pairs give.

    ``budget.steps=9`` is a setting, ``top_v=10`` an option of the system that answers, and ``bm25.relations=true`` one
    of a system within the system. ``own`` are options that come before settings of the same name. Raises UsageError for
    what is no pair.
    """
    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not name or not equals:
            raise UsageError(f"--set takes name=value, not {pair!r}")
        *groups, last = name.split(".")
        if name not in own and (groups or [last])[0] in Settings.model_fields:
            place = settings
            for group in groups:
                place = place.setdefault(group, {})
            place[last] = value.split(",") if _is_list(name) and not value.startswith("[") else value
        elif groups:
            options.setdefault(INNER, {}).setdefault(".".join(groups), {})[last] = value
        else:
            options[name] = value
    return options, settings


def _is_list(setting: str) -> bool:
    """Whether a setting takes several values."""
    kind: Any = Settings
    for part in setting.split("."):
        field = getattr(kind, "model_fields", {}).get(part)
        kind = field.annotation if field else None
    return get_origin(kind) is tuple


def read_options(kind: type[O], given: Mapping[str, Any], system: str) -> O:
    """The options of a system. Raises UsageError for an unknown one, naming those there are, and for a wrong value."""
    unknown = [name for name in given if name not in kind.model_fields]
    if unknown:
        if unknown[0] == INNER:
            inner = next(iter(given[INNER]), "")
            raise UsageError(f"{system} is not made of other systems, so no option of it begins with '{inner}.'")
        every = (*kind.model_fields, *Settings.model_fields)
        meant = f"; use kbnav.Settings({unknown[0]}=…)" if unknown[0] in every else did_you_mean(unknown[0], every)
        known = ", ".join(kind.model_fields) or "none"
        raise UsageError(f"{system} has no option {unknown[0]!r}; there are: {known}{meant}")
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{part}" if not place else f".{part}" for place, part in enumerate(first["loc"]))
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{system}: {where}: {said}" if where else f"{system} {said}") from error


def describe_options(kind: type[Options]) -> list[dict[str, Any]]:
    """Each option as plain data: its ``name``, ``type`` in words, ``default`` as ``--set`` takes it, and ``about``."""
    schema = kind.model_json_schema()
    defaults = kind().model_dump(mode="json")
    return [
        {
            "name": name,
            "type": _type_in_words(field),
            "default": defaults[name],
            "about": " ".join(field.get("description", "").replace("``", "").split()),
        }
        for name, field in schema.get("properties", {}).items()
    ]


def _type_in_words(field: Mapping[str, Any]) -> str:
    """The type of an option from its JSON schema, as in ``a number from 1 to 50``."""
    several = [_type_in_words(one) for one in field.get("anyOf", []) if one.get("type") != "null"]
    if several:
        return " or ".join(several)
    if "enum" in field:
        return "one of " + ", ".join(map(str, field["enum"]))
    kind = field.get("type", "")
    if kind == "array":
        return f"several, with commas: {_type_in_words(field.get('items', {}))}"
    words = {
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "object": "NAME.OPTION=VALUE",
    }
    low, high, above = field.get("minimum"), field.get("maximum"), field.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f"{words[kind]} from {low} to {high}"
    bound = f", at least {low}" if low is not None else f", above {above}" if above is not None else ""
    return words.get(kind, "text") + bound


GROUP = "kbnav.systems"
"""The group of entry points."""
KBKind = Literal["wikibase", "sparql", "skb", "several"]
"""Wikidata, a mirror of it or another Wikibase; any other SPARQL endpoint; a graph whose nodes have documents; or
several of these that are asked together."""
NEEDS_SKB = (
    "{who} needs an SKB, and this knowledge base holds statements as Wikidata does: name an SKB, as in --kb demo "
    "(kb= in Python), or ask this one a question with kbnav ask"
)
SystemKind = Literal["agent", "retriever"]
SystemName = str | Callable[..., Any]
"""A system's name, ``module:function`` of one's own builder, or that function."""
Need = Literal["model", "vectors", "training"]
"""A language model, vectors in the SKB, or something that was trained for the SKB."""


class AnyKB(Protocol):
    """What the registry knows of a knowledge base."""

    @property
    def capabilities(self) -> Collection[str]:
        """The tools that work on it."""

    def state(self) -> Mapping[str, Any]:
        """What it is, ``kind`` among it."""


def kb_kind(kb: AnyKB) -> KBKind:
    """Of which kind a knowledge base is."""
    kind = kb.state().get("kind")
    return kind if kind in ("skb", "sparql", "several") else "wikibase"


@dataclass(frozen=True)
class SystemEntry:
    """One system. Another package's entry point may be such an entry, or just a builder.

    ``build`` is a function of a knowledge base, the settings and, where it has a third parameter ``options``, options
    of the type that this parameter is annotated with; or where that function is, as ``module:attribute``.
    """

    name: str
    about: str
    """One line."""
    build: str | Callable[..., Any]
    kind: SystemKind | None = None
    """None: what is built tells."""
    options: str | type[Options] = ""
    """The model of what ``--set`` sets, or where it is; empty: the builder's signature says."""
    kbs: tuple[KBKind, ...] = ()
    """The kinds of knowledge base it answers questions of; empty: any."""
    needs: tuple[Need, ...] = ()
    """What it cannot do without as its options are by default."""
    uses: tuple[Need, ...] = ()
    """What it can do without, by rules that are a baseline; better with it."""
    paper: str = ""
    """Where it is described, or measured as a baseline."""
    origin: str = "kbnav"
    """The distribution or module that it comes from."""

    def fits(self, kind: KBKind) -> bool:
        """Whether it answers questions of such a knowledge base."""
        return not self.kbs or kind in self.kbs

    def runs_with(self, model: str) -> bool:
        """Whether it can work with a model; some have no rules to go by where there is none."""
        return model != OFFLINE or "model" not in self.needs

    def builder(self) -> Callable[..., Any]:
        """What builds it. Raises UsageError where that cannot be imported or called."""
        build = load(self.build) if isinstance(self.build, str) else self.build
        if not callable(build):
            raise UsageError(f"{self.build} is no function that builds a system")
        return build

    def options_type(self) -> type[Options]:
        """What ``--set`` may set. Raises UsageError as ``builder``, and for options that are none."""
        if isinstance(self.options, type):
            return self.options
        return load(self.options) if self.options else _annotated_options(self.builder())

    def read(self, given: Mapping[str, Any]) -> Options:
        """The options given, checked and with the defaults of the others. Raises UsageError."""
        return read_options(self.options_type(), given, self.name)

    def settings_beside_others(self, settings: Settings, *, alone: bool) -> Settings:
        """The settings with a retriever's options, those set only where it is ``alone``. Raises UsageError."""
        if self.kind != "retriever":
            return settings
        options = self.read(settings.options if alone else {})
        return settings.model_copy(update={"options": options.model_dump(mode="json")})

    def brief(self) -> dict[str, Any]:
        """What is said of it, as plain data."""
        return {
            "name": self.name,
            "about": self.about,
            "kind": self.kind,
            "kbs": list(self.kbs),
            "needs": list(self.needs),
            "uses": list(self.uses),
            "from": self.origin,
        }

    def record(self) -> dict[str, Any]:
        """That and the options with their types and defaults. Raises UsageError as ``options_type``."""
        return {**self.brief(), "paper": self.paper, "options": describe_options(self.options_type())}


_LISTED = tomllib.loads(Path(__file__).with_name("systems.toml").read_text(encoding="utf-8"))
BUILT_IN = TypeAdapter(tuple[SystemEntry, ...]).validate_python(_LISTED["system"])
"""Those of kbnav, as ``systems.toml`` lists them: the first agent that fits a knowledge base is its usual one."""


def systems() -> Iterator[SystemEntry]:
    """Systems of kbnav, then of other packages without taken names; one that cannot be loaded says so."""
    yield from BUILT_IN
    names = {entry.name for entry in BUILT_IN}
    for point in points(GROUP):
        if point.name in names:
            continue
        try:
            yield _entry(point.name, load_point(point), origin(point))
        except UsageError as error:
            yield SystemEntry(point.name, f"cannot be loaded: {error}", point.value, origin=origin(point))


def find(name: SystemName, kind: SystemKind | None = None) -> SystemEntry:
    """A system by name or reference. Raises UsageError for an unknown one, or of another ``kind``."""
    if not isinstance(name, str):
        name, given = name_of(name), name
        return _entry(name, given, name.partition(":")[0])
    found = next((entry for entry in BUILT_IN if entry.name == name), None)
    if found is None and ":" in name:
        found = _entry(name, load(name), name.partition(":")[0])
    if found is None:
        found = next((_entry(name, load_point(one), origin(one)) for one in points(GROUP) if one.name == name), None)
    if found is None:
        known = [entry.name for entry in systems() if not (kind and entry.kind) or entry.kind == kind]
        what = {"agent": "agent", "retriever": "retriever"}.get(kind or "", "system")
        raise UsageError(f"no {what} {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}")
    _check_kind(name, found.kind, kind)
    return found


def kind_of(name: str) -> SystemKind | None:
    """What a system is by its name; None where its builder does not say, or where there is no such system now."""
    try:
        return find(name).kind
    except UsageError:
        return None


def build(name: SystemName, kb: AnyKB, settings: Settings, kind: SystemKind | None = None) -> Any:
    """Build a system by name: an ``Agent`` or a ``Retriever``, whose settings hold all its options.

    Raises UsageError for an unknown name or option, for a system of another ``kind`` than is wanted, and where the
    system cannot work on this knowledge base; CredentialsError where its model needs a key.
    """
    entry = find(name, kind)
    name = entry.name
    options = entry.read(settings.options)
    if entry.kbs and kb_kind(kb) == "several" and not entry.fits("several"):
        able = ", ".join(one.name for one in BUILT_IN if "several" in one.kbs)
        raise UsageError(f"the system {name} asks one knowledge base: name one, or take {able}, which asks several")
    if entry.kbs == ("skb",) and kb_kind(kb) != "skb":
        raise UsageError(NEEDS_SKB.format(who=f"the system {name}"))
    if settings.model == OFFLINE and "model" in entry.uses and getattr(options, "preset", "") == "paper":
        raise UsageError("the preset paper needs a model, as rules cannot follow it: --model (model= in Python)")
    settings = settings.model_copy(update={"options": options.model_dump(mode="json")})
    builder = entry.builder()
    names = list(inspect.signature(builder).parameters)
    given = (options,) if names[1:2] == ["options"] else (settings, options) if "options" in names else (settings,)
    try:
        inspect.signature(builder).bind(kb, *given)
    except TypeError as error:
        raise UsageError(f"{name} builds no system: it must be a function of a kb and settings ({error})") from error
    built = builder(kb, *given)
    _check_kind(name, built_kind(name, built), kind)
    return built


def usual_agent(kb: AnyKB) -> str:
    """The agent that answers where none is named."""
    kind = kb_kind(kb)
    return next(entry.name for entry in BUILT_IN if entry.kind == "agent" and entry.fits(kind))


def retrievers_for(kb: AnyKB) -> list[SystemEntry]:
    """The retrievers that rank nodes of a knowledge base as it is: with the vectors they need, and untrained."""
    kind, vectors = kb_kind(kb), "vector_query" in kb.capabilities
    return [
        entry
        for entry in systems()
        if entry.kind == "retriever"
        and entry.fits(kind)
        and "training" not in entry.needs
        and (vectors or "vectors" not in entry.needs)
    ]


def built_kind(name: str, built: object) -> SystemKind:
    """What a builder gave. Raises UsageError where it is neither."""
    if callable(getattr(built, "retrieve", None)):
        if lacking := [each for each in ("name", "prompts") if not hasattr(built, each)]:
            raise UsageError(f"{name} builds a retriever without {' and '.join(lacking)}")
        return "retriever"
    if hasattr(built, "policy") and hasattr(built, "toolbox"):
        return "agent"
    raise UsageError(f"{name} builds a {type(built).__name__}, which is neither an Agent nor a Retriever")


def _check_kind(name: str, kind: SystemKind | None, wanted: SystemKind | None) -> None:
    if not kind or not wanted or kind == wanted:
        return
    if kind == "retriever":
        way = f"kbnav retrieve --system {name} (kbnav.retrieve in Python)"
        raise UsageError(f"{name} is a retriever: it ranks nodes and writes no answer; ask it by {way}")
    raise UsageError(f"{name} is an agent and no retriever; ask it by kbnav ask --system {name} (kbnav.ask in Python)")


def _entry(name: str, found: Any, origin: str) -> SystemEntry:
    """An entry of another package's, or one made of its builder: what it is, its docstring's first line says."""
    if isinstance(found, SystemEntry):
        return replace(found, name=name, origin=origin)
    if not callable(found):
        raise UsageError(f"{name}: a {type(found).__name__} is no function that builds a system, and no SystemEntry")
    about = (inspect.getdoc(found) or "").partition("\n")[0]
    return SystemEntry(name, about or f"Built by {found.__name__} of {found.__module__}.", found, origin=origin)


def _annotated_options(builder: Callable[..., Any]) -> type[Options]:
    """The type of a builder's parameter ``options``; without one there are no options. Raises UsageError."""
    parameters = inspect.signature(builder).parameters
    if "options" not in parameters:
        return Options
    said = parameters["options"].annotation
    only = type("", (), {"__annotations__": {"options": said}})  # its other types may be for checkers of types alone
    try:
        found = get_type_hints(only, globalns=getattr(inspect.unwrap(builder), "__globals__", {}))["options"]
    except NameError as error:
        raise UsageError(f"{builder.__module__}: the type of {builder.__name__}'s options: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Options)):
        raise UsageError(f"{builder.__module__}: options of {builder.__name__} must be of a subclass of Options")
    return found
