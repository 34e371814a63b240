"""A function of the API as it is offered: by its Python signature and docstring, which are all that a writer reads."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError, validate_call

from kbnav.errors import BadArguments

Group = Literal["knowledge base", "embedding", "strings", "language model", "feedback"]

_PLAIN = {"Count": "int"}
"""Types with bounds, as a writer reads them."""


@dataclass(frozen=True)
class Function:
    """One function of the API."""

    name: str
    group: Group
    run: Callable[..., Any]
    """Takes plain data, checked against the signature, and gives plain data."""

    @classmethod
    def of(cls, method: Callable[..., Any], group: Group) -> Function:
        """A method as a function of the API, under its own name."""
        return cls(method.__name__, group, method)

    @property
    def signature(self) -> str:
        """As in ``related(ids: list[str], limit: int = 100) -> dict[str, list[str]]``."""
        signature = inspect.signature(self.run)
        shown = [
            str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in signature.parameters.values()
        ]
        typed = [
            _annotated(text, parameter.annotation)
            for text, parameter in zip(shown, signature.parameters.values(), strict=True)
        ]
        return f"{self.name}({', '.join(typed)}) -> {signature.return_annotation}"

    @property
    def doc(self) -> str:
        """The docstring."""
        return inspect.getdoc(self.run) or ""

    def stub(self) -> str:
        """The function's declaration in Python, without its body."""
        body = textwrap.indent(f'"""{self.doc}"""\n...', "    ")
        return f"def {self.signature}:\n{body}"

    def checked(self) -> Callable[..., Any]:
        """``run`` behind a check of its arguments, which raises BadArguments."""
        check = validate_call(config=ConfigDict(arbitrary_types_allowed=False))(self.run)

        def call(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
            try:
                return check(*args, **kwargs)
            except ValidationError as error:
                first = error.errors(include_url=False, include_context=False)[0]
                where = ".".join(str(part) for part in first["loc"])
                raise BadArguments(f"{self.name}: {where}: {first['msg']}; see {self.signature}") from None

        return call


def _annotated(shown: str, annotation: object) -> str:
    """``limit=100`` as ``limit: int = 100``; annotations are strings, as postponed evaluation leaves them."""
    name, equals, default = shown.partition("=")
    text = f"{name}: {_PLAIN.get(str(annotation), annotation)}"
    return f"{text} = {default}" if equals else text
