"""A function of the API as it is offered: by its Python signature and docstring, which are all that a writer reads."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import FailFast, Field, ValidationError, validate_call

from kbnav.errors import BadArguments
from kbnav.programs.api.bounded import excess

Group = Literal["knowledge base", "embedding", "strings", "language model", "feedback"]

MOST_PHRASE = 2_000
Phrase = Annotated[str, Field(max_length=MOST_PHRASE)]
"""A query or what else is compared with many texts."""
_PLAIN = {"Count": "int", "WordCount": "int", "Phrase": "str"}
"""Types with bounds, as a writer reads them."""
_MOST_ARGUMENTS = 20


@dataclass(frozen=True)
class Function:
    """One function of the API."""

    group: Group
    method: Callable[..., Any]
    """Takes the object that it belongs to, then plain data as its signature says, and gives plain data."""
    asks_model: bool = False

    @property
    def name(self) -> str:
        """As a program calls it."""
        return self.method.__name__

    @cached_property
    def signature(self) -> str:
        """As in ``related(ids: list[str], limit: int = 100) -> dict[str, list[str]]``."""
        signature = inspect.signature(self.method)
        _, *parameters = signature.parameters.values()
        return f"{self.name}({', '.join(map(_typed, parameters))}) -> {signature.return_annotation}"

    @property
    def doc(self) -> str:
        """The docstring, and behind it the bounds of the numbers that it takes."""
        said = inspect.getdoc(self.method) or ""
        bounds = "; ".join(f"`{name}` is from {least:,} to {most:,}" for name, least, most in self._bounds())
        return f"{said} {bounds}." if bounds else said

    def _bounds(self) -> Iterator[tuple[str, int, int]]:
        """Each parameter that is a number with bounds, as validation has them."""
        for name, hint in get_type_hints(self.method, include_extras=True).items():
            limits = [one for part in getattr(hint, "__metadata__", ()) for one in getattr(part, "metadata", ())]
            found = {kind: getattr(one, kind) for one in limits for kind in ("ge", "le") if hasattr(one, kind)}
            if len(found) == 2:
                yield name, found["ge"], found["le"]

    def stub(self) -> str:
        """The function's declaration in Python, without its body."""
        body = textwrap.indent(f'"""{self.doc}"""\n...', "    ")
        return f"def {self.signature}:\n{body}"

    def call(self, owner: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What it gives for arguments from a program. Raises BadArguments for those that it does not take."""
        if self.group != "feedback":  # which takes anything, and reads only the beginning of it
            if len(args) + len(kwargs) > _MOST_ARGUMENTS:
                raise BadArguments(f"{self.name}: {len(args) + len(kwargs)} arguments; it is {self.signature}")
            if why := excess([args, kwargs]):
                raise BadArguments(f"{self.name}: {why} in one call")
        try:
            return self._checked(owner, *args, **kwargs)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(self._parameter(part) for part in first["loc"][:2])
            raise BadArguments(f"{self.name}: {where}: {first['msg']}; it is {self.signature}") from None

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        """Says what is wrong with the first part of a list that is, however many are."""

        @wraps(self.method)
        def method(*args: Any, **kwargs: Any) -> Any:
            return self.method(*args, **kwargs)

        hints = get_type_hints(self.method, include_extras=True)
        method.__annotations__ = {name: _up_to_first(hint) for name, hint in hints.items()}
        return validate_call(method)

    def _parameter(self, part: int | str) -> str:
        """Pydantic names arguments by their place where they were given so."""
        names = list(inspect.signature(self.method).parameters)
        return names[part] if isinstance(part, int) and part < len(names) else str(part)[:80]


def _up_to_first(hint: Any) -> Any:
    """The type of a list, for a validation that ends at the first of its parts that is wrong."""
    if get_origin(hint) is not list:
        return hint
    (part,) = get_args(hint)
    return Annotated[list[_up_to_first(part)], FailFast()]  # type: ignore[misc]


def _typed(parameter: inspect.Parameter) -> str:
    """``limit: int = 100``; annotations are strings, as postponed evaluation leaves them."""
    name, equals, default = str(parameter.replace(annotation=inspect.Parameter.empty)).partition("=")
    annotation = _PLAIN.get(str(parameter.annotation), parameter.annotation)
    return f"{name}: {annotation} = {default}" if equals else f"{name}: {annotation}"
