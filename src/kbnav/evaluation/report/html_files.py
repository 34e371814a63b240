"""HTML pages that are files of their own: their templates, what they have inside, and long texts cut short."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template


def template(package: str, name: str, **filters: Callable[..., Any]) -> Template:
    """A template of a package's folder ``templates``; values are escaped, and one that is not given is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(package), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(name)


@cache
def inside(package: str, name: str) -> str:
    """A file of the same folder, such as a style sheet, to be put into a page."""
    return (resources.files(package) / "templates" / name).read_text(encoding="utf-8")


def shortened(text: str, width: int) -> str:
    """A text of ``width`` characters at most, and how many more it has."""
    return text if len(text) <= width else f"{text[:width]}… ({len(text) - width:,} more characters)"
