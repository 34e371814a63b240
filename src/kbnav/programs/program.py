"""A program that ranks nodes: its source read and checked, without anything of it being run."""

from __future__ import annotations

import ast
import hashlib
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from kbnav.errors import KbnavError, TellModel
from kbnav.runs.trajectory import Usage

Entry = Literal["score", "retrieve"]
"""``score`` ranks candidates that it is given, ``retrieve`` finds its own."""
Parameter: TypeAlias = bool | int | float | str
FailureKind = Literal[
    "program",  # the source itself: its syntax, names, types, or what it lacks
    "raised",  # an exception that the program raised or did not catch
    "time",
    "memory",
    "recursion",
    "output",
    "calls",
    "scores",  # what it gave is no ranking
    "crash",  # the process that ran it died
]

MOST_CHARACTERS = 32_000
"""Of a source. More would take Python's parser long, and no writer needs it."""
_NESTED = 60
"""Brackets and blocks inside one another."""
_MODEL_PARAMETERS: Mapping[Entry, tuple[str, ...]] = MappingProxyType(
    {"score": ("query", "candidates"), "retrieve": ("query",)}
)
_DEBUGGERS = frozenset({"breakpoint", "input"})
_DEBUGGER_MODULES = frozenset({"pdb", "ipdb", "pudb", "bdb"})


@dataclass(frozen=True)
class Problem:
    """What is wrong with a program, and where; ``line`` counts from 1, 0 where it concerns no line."""

    message: str
    line: int = 0

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


class ProgramLimit(KbnavError):
    """A limit that ends the run of a program; ``kind`` is that of the failure."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class BadProgram(TellModel):
    """A source that is no program; its text has a line for each of ``problems``."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Program:
    """A module with ``PARAMETERS`` and ``score`` or ``retrieve``, which give scores by node id. ``read`` makes one."""

    source: str
    entry: Entry
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """``PARAMETERS``: names with their defaults."""

    @classmethod
    def read(cls, source: str) -> Program:
        """The program that a source is. Raises BadProgram with all that is wrong; nothing of it is run."""
        tree = _parsed(source)
        problems = [*_debugger_calls(tree)]
        entry, found = _entry(tree)
        problems += found
        parameters, found = _parameters(tree)
        problems += found
        if entry is not None and not problems:
            problems += _signature(entry, parameters)
        if problems or entry is None:
            raise BadProgram(sorted(problems, key=lambda problem: problem.line))
        return cls(source, "score" if entry.name == "score" else "retrieve", MappingProxyType(parameters))

    @property
    def sha256(self) -> str:
        """Of the source."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Failure(Problem):
    """Why a program gave no scores; its message is one line or a few, for the writer."""

    kind: FailureKind = "raised"


@dataclass(frozen=True)
class Outcome:
    """What came of one run of a program on one query."""

    scores: Mapping[str, float] = field(default_factory=dict)
    """By node id, best first, equal ones in the order of the candidates; empty where it failed."""
    error: Failure | None = None
    debug: str = ""
    """What the program told by ``debug`` and ``print``."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """How often each function of the API was called."""
    seconds: float = 0.0
    """From start to end, waiting for a model included."""
    usage: Usage = field(default_factory=Usage)
    """Tokens and calls of the model that its functions asked."""

    @property
    def ok(self) -> bool:
        """Whether it gave scores."""
        return self.error is None


def _parsed(source: str) -> ast.Module:
    if len(source) > MOST_CHARACTERS:
        raise BadProgram([Problem(f"the program has {len(source)} characters, {MOST_CHARACTERS} are allowed")])
    try:
        source.encode()
    except UnicodeEncodeError as error:
        raise BadProgram([Problem("the program has characters that are no Unicode")]) from error
    if _depth(source) > _NESTED:
        raise BadProgram([Problem(f"brackets or operators are nested more than {_NESTED} deep")])
    try:
        with warnings.catch_warnings():  # an escape such as "\d" is no fault
            warnings.simplefilter("ignore")
            return ast.parse(source, "program.py")
    except SyntaxError as error:
        raise BadProgram([Problem(f"SyntaxError: {error.msg}", error.lineno or 0)]) from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:  # zero bytes; too deep for the parser
        raise BadProgram([Problem(f"cannot be read: {str(error) or type(error).__name__}")]) from error


def _depth(source: str) -> int:
    """An upper bound of how deep expressions are nested: open brackets, and runs of prefix operators."""
    deepest = depth = 0
    for char in source:
        if char in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")]}":
            depth = max(0, depth - 1)
    runs = re.finditer(r"(?:[-+~]\s*|\bnot\b\s*|\blambda\b[^:]*:\s*){61,}", source)
    return max(deepest, _NESTED + 1 if next(runs, None) else 0)


def _entry(tree: ast.Module) -> tuple[ast.FunctionDef | None, list[Problem]]:
    names = [*_MODEL_PARAMETERS]
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    if not found:
        return None, [Problem("neither score(query, candidates, **parameters) nor retrieve(query, **parameters)")]
    if len(found) > 1:
        return None, [Problem(f"{found[1].name} is a second entry: write score or retrieve, once", found[1].lineno)]
    return found[0], []


def _parameters(tree: ast.Module) -> tuple[dict[str, Parameter], list[Problem]]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if not any(isinstance(target, ast.Name) and target.id == "PARAMETERS" for target in targets):
            continue
        assert isinstance(node, ast.Assign | ast.AnnAssign)
        try:
            value = ast.literal_eval(node.value) if node.value else None
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            value = None
        if not isinstance(value, dict) or not all(isinstance(name, str) and name.isidentifier() for name in value):
            return {}, [Problem("PARAMETERS is not a dict of names with plain numbers, strings, booleans", node.lineno)]
        bad = [
            name
            for name, one in value.items()
            if not isinstance(one, bool | int | str | float) or (isinstance(one, float) and not math.isfinite(one))
        ]
        if bad:
            return {}, [Problem(f"the parameter {bad[0]!r} is no finite number, string or boolean", node.lineno)]
        return value, []
    return {}, []


def _signature(entry: ast.FunctionDef, parameters: Mapping[str, Parameter]) -> list[Problem]:
    """What keeps the entry from being called with its arguments by position, and all parameters by name."""
    args = entry.args
    wanted = _MODEL_PARAMETERS["score" if entry.name == "score" else "retrieve"]
    positional = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    head = f"{entry.name}({', '.join(wanted)}, …)"
    if tuple(positional[: len(wanted)]) != wanted or len(args.posonlyargs) > len(wanted):
        return [Problem(f"must begin as {head}", entry.lineno)]
    by_name = [*positional[len(wanted) :], *(arg.arg for arg in args.kwonlyargs)]
    missing = [name for name in parameters if name not in by_name] if args.kwarg is None else []
    if missing:
        return [Problem(f"{entry.name} does not take {missing[0]!r}, which PARAMETERS has", entry.lineno)]
    free = positional[len(wanted) : len(positional) - len(args.defaults)]
    free += [arg.arg for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None]
    unset = [name for name in free if name not in parameters]
    return [Problem(f"{entry.name} needs {unset[0]!r}, which PARAMETERS lacks", entry.lineno)] if unset else []


def _debugger_calls(tree: ast.Module) -> Iterator[Problem]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DEBUGGERS:
            yield Problem(f"{node.func.id}() waits for a person; use debug(…)", node.lineno)
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for module in [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]:
            if module.partition(".")[0] in _DEBUGGER_MODULES:
                yield Problem(f"import of {module}: a debugger waits for a person; use debug(…)", node.lineno)
