"""Packages that only some uses need: what to install where one is missing, said in one form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kbnav.errors import UsageError


def missing(use: str, *packages: str, extra: str = "") -> UsageError:
    """The error for a use of packages that are not installed, and how to install them: by an extra, or by name."""
    named = " and ".join(packages)
    wanted = f"'kbnav[{extra}]'" if extra else " ".join(packages)
    verb = "is" if len(packages) == 1 else "are"
    return UsageError(f"{use} needs {named}, which {verb} not installed: pip install {wanted}")


@contextmanager
def needs(extra: str, use: str) -> Iterator[None]:
    """Around the imports of an extra's packages. Raises UsageError that says how to install what is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or extra).partition(".")[0]
        if package == "kbnav":
            raise
        raise missing(use, package, extra=extra) from error
