"""Packages that only some uses need: what to install where one is missing, said in one form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbnav.errors import UsageError


def missing(extra: str, use: str, *packages: str) -> UsageError:
    """The error for a use that needs packages which are not installed."""
    named = ", ".join(packages) or extra
    return UsageError(f"{use} needs {named}, which is not installed: pip install 'kbnav[{extra}]'")


@contextmanager
def needs(extra: str, use: str) -> Iterator[None]:
    """Around imports of an extra's packages. Raises UsageError that says how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "kbnav":
            raise
        raise missing(extra, use, error.name or "") from error
