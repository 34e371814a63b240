"""The way of a question, from a traced run, as docs/architecture.md has it: ``python -m tests.way_of_a_question``."""

import os
import re
import sys
import threading
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import kbnav

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path(os.path.realpath(kbnav.__file__)).parent
FOLDERS = ("agents", "tools", "prompts")
QUESTION = "Which elements were discovered by Marie Curie?"
THINK = "agents/machine.py Machine.think"
AFTER = re.compile(
    r"agents/machine\.py Machine\.(think|act|rollback|report)|agents/offline/policy\.py Agenda\.reply"
    r"|agents/offline/wikidata\.py WikidataAgenda\.(calls|hypotheses)|tools/toolbox\.py Toolbox\.run"
    r"|tools/wikidata\.py (search_entities|get_entry|get_property_examples|search_neighbors|execute_query|finish)"
    r"|src/kbnav/knowledge/wikidata/kb\.py WikidataKB\.(search_entities|get_entry|search_neighbors|execute_query)"
    r"|src/kbnav/knowledge/wikidata/mirror/mirror\.py Local(Api\.call|Queries\.run)"
    r"|agents/common/answering\.py (QueryEnding\.conclude|write_plainly)|agents/common/checks\.py with_doubts"
    r"|src/kbnav/runs/trajectory\.py save_run|src/kbnav/apps/cli/ask\.py print_outcome"
    r"|src/kbnav/apps/console\.py print_answer"
)


@cache
def _name(code: CodeType) -> str:
    """``file function`` of code of kbnav; empty for another's."""
    place = Path(os.path.realpath(code.co_filename))
    if code.co_name == "<module>":
        return ""
    if place.is_relative_to(PACKAGE):  # of a wheel, the three folders of the root too
        file = place.relative_to(PACKAGE)
        return f"{file if file.parts[0] in FOLDERS else 'src/kbnav' / file} {code.co_qualname}"
    file = place.relative_to(ROOT) if place.is_relative_to(ROOT) else Path("elsewhere")
    return f"{file} {code.co_qualname}" if file.parts[0] in FOLDERS else ""


def _stack(frame: FrameType | None) -> list[str]:
    """The calls of kbnav that lead to a frame, the outermost first."""
    names: list[str] = []
    while frame is not None:
        names.insert(0, _name(frame.f_code))
        frame = frame.f_back
    return [name for name in names if name]


def way() -> tuple[list[str], list[str]]:
    """The calls from the command to the first turn, one inside the other; and what is first called from there on."""
    to_turn: list[str] = []
    after: dict[str, None] = {}
    known: dict[int, CodeType] = {}

    def seen(frame: FrameType, event: str, arg: object) -> None:
        if event != "call" or id(frame.f_code) in known:
            return
        known[id(frame.f_code)] = frame.f_code
        name = _name(frame.f_code)
        if name == THINK and not to_turn:
            to_turn[:] = _stack(frame.f_back)
        if AFTER.fullmatch(name):
            after[name] = None

    from kbnav.apps.cli import main

    sys.argv = ["kbnav", "ask", "--quiet", QUESTION]
    threading.setprofile(seen)
    sys.setprofile(seen)
    with suppress(SystemExit), redirect_stdout(StringIO()):
        main()
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    command = next(place for place, name in enumerate(to_turn) if name.endswith("/ask.py ask"))
    return to_turn[command:], list(after)


def main() -> None:
    """Print it."""
    with TemporaryDirectory() as home:
        os.environ["KBNAV_HOME"] = home
        to_turn, after = way()
    for depth, name in enumerate(to_turn):
        print("  " * depth + name)
    for name in after:
        print("  " * len(to_turn) + name)


if __name__ == "__main__":
    main()
