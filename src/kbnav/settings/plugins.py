"""What other packages, and modules of one's own, add to kbnav: systems, tools and datasets.

An installed package adds by entry points of the groups ``kbnav.systems``, ``kbnav.tools`` and ``kbnav.datasets``; a
module of one's own is named on the command line, as ``module:attribute``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbnav.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


_LIKE = 0.6
"""How alike two names must be, from 0 to 1, for one to be offered for the other."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'spinach'?`` where one of the known names is like the one given, else nothing."""
    from difflib import get_close_matches

    lower = {one.lower(): one for one in known}
    found = get_close_matches(name.lower(), list(lower), n=1, cutoff=_LIKE)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def points(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group, by their names; of two with one name the first that is found."""
    from importlib.metadata import entry_points

    found = {point.name: point for point in reversed(tuple(entry_points(group=group)))}
    return [found[name] for name in sorted(found)]


def load_point(point: EntryPoint) -> Any:
    """What an entry point names. Raises UsageError."""
    return load(point.value.partition(" ")[0])


def origin(point: EntryPoint) -> str:
    """The distribution that an entry point comes from."""
    return point.dist.name if point.dist else point.module


def load(reference: str) -> Any:
    """What ``module:attribute`` names, also of the working directory. Raises UsageError where there is none."""
    module_name, _, path = reference.partition(":")
    try:
        module = _imported(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"{reference}: there is no module {error.name!r}, here or installed") from error
        raise UsageError(f"{reference}: {module_name} needs {error.name}, which is not installed") from error
    except Exception as error:  # whatever a stranger's module raises as it is imported
        raise UsageError(f"{reference}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    found: Any = module
    for part in path.split("."):
        if not part or not hasattr(found, part):
            known = [name for name, value in vars(module).items() if callable(value)]
            raise UsageError(f"{reference}: {module_name} has no {path!r}{did_you_mean(path, known)}")
        found = getattr(found, part)
    return found


def name_of(tool: Any) -> str:
    """The name by which ``load`` finds a function; of other objects the name that they go by."""
    own = str(getattr(tool, "name", "") or getattr(tool, "__name__", "") or type(tool).__name__)
    name = f"{getattr(tool, '__module__', '')}:{getattr(tool, '__qualname__', '')}"
    with suppress(UsageError):
        if load(name) is tool:
            return name
    return own


def named(name: str, group: str) -> Any:
    """What a name stands for: ``module:attribute``, or an entry point of the group. Raises UsageError, and KeyError."""
    if ":" in name:
        return load(name)
    return load_point({point.name: point for point in points(group)}[name])


def _imported(name: str) -> Any:
    """A module; the working directory is searched last, and only where the module is nowhere else."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] or str(Path.cwd()) in sys.path:
            raise
        sys.path.append(str(Path.cwd()))
        return import_module(name)


def missing(use: str, *packages: str, extra: str = "") -> UsageError:
    """The error for a use of packages that are not installed, and how to install them: by an extra, or by name."""
    named = " and ".join(packages)
    wanted = f"'kbnav[{extra}]'" if extra else " ".join(packages)
    verb = "is" if len(packages) == 1 else "are"
    return UsageError(f"{use} needs {named}, which {verb} not installed: pip install {wanted}")


def require(use: str, *packages: str, extra: str = "") -> None:
    """Raise that error where one of the packages, as they are imported, is not installed."""
    if absent := [name.replace("_", "-") for name in packages if find_spec(name) is None]:
        raise missing(use, *absent, extra=extra)


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
