"""The page on where things are tells the lines that are; ``python -m tests.test_architecture`` puts them right."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PLACE = re.compile(r"`([\w/]+\.py):(\d+)` `([\w.]+)`")


@cache
def lines(file: str) -> dict[str, int]:
    """The line of each function and class of a file by its qualified name."""
    found: dict[str, int] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found[prefix + child.name] = child.lineno
                visit(child, f"{prefix}{child.name}.")

    visit(ast.parse((ROOT / file).read_text(encoding="utf-8")), "")
    return found


def corrected(text: str) -> str:
    """The page with the lines that are. Raises KeyError for a name that is not in its file any more."""
    return PLACE.sub(lambda place: f"`{place[1]}:{lines(place[1])[place[3]]}` `{place[3]}`", text)


def test_the_lines_that_the_page_names_are_there():
    text = PAGE.read_text(encoding="utf-8")
    question = text.partition("## The way of a question")[2].partition("##")[0]
    assert len({file for file, _, _ in PLACE.findall(question)}) == 6
    assert text == corrected(text), "python -m tests.test_architecture puts the numbers right"


def test_every_file_and_folder_of_the_package_has_its_room_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    inside = (ROOT / "src" / "kbnav").iterdir()
    names = {path.name for path in inside if path.suffix in ("", ".py") and not path.name.startswith("_")}
    assert sorted(name for name in names if name not in text) == []


def test_every_place_that_the_page_names_exists():
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)", text))
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "src/kbnav"))]
    assert missing in ([], ["data/"])


if __name__ == "__main__":
    PAGE.write_text(corrected(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
