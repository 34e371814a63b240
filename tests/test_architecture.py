"""The page on where things are names what is there."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PLACE = re.compile(r"`([\w/]+\.py)` `([\w.]+)`")


@cache
def defined(file: str) -> set[str]:
    """The qualified names of the functions and classes of a file."""
    found: set[str] = set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found.add(prefix + child.name)
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse((ROOT / file).read_text(encoding="utf-8")), "")
    return found


def test_what_the_page_says_is_in_a_file_is_in_it():
    named = PLACE.findall(PAGE.read_text(encoding="utf-8"))
    assert [(file, name) for file, name in named if name not in defined(file)] == []


def test_the_way_of_a_question_is_that_of_a_traced_run():
    traced = subprocess.run(
        [sys.executable, "-m", "tests.way_of_a_question"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    told = PAGE.read_text(encoding="utf-8").partition("```text\nsrc/kbnav/apps/cli/ask.py ask\n")[2].partition("```")[0]
    lines = traced.splitlines()[1:]
    assert sorted(told.splitlines()) == sorted(lines)  # calls of one turn run side by side, in no order
    nested = [line for line in lines if not line.startswith(" " * 10)]
    assert told.splitlines()[: len(nested)] == nested
    between = [line for line in traced.splitlines() if line.startswith("  ")]
    assert next(place for place, line in enumerate(between) if line.endswith("Machine.think")) <= 5


def test_every_file_and_folder_of_the_package_has_its_room_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    inside = (ROOT / "src" / "kbnav").iterdir()
    names = {path.name for path in inside if path.suffix in ("", ".py") and not path.name.startswith("_")}
    assert sorted(name for name in names if name not in text) == []
