"""What the guide says works: its Python runs, its commands run, its settings and files exist."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from kbnav.apps.cli import main
from kbnav.settings.model import Settings
from tests.conftest import ROOT

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
    page["kb"].close()
    printed = capsys.readouterr().out
    told = re.findall(r"^print\(.*\) +# (.*)$", program, re.MULTILINE)
    assert len(told) == 7
    assert [line for line in told if line.removesuffix(" …") not in printed] == []


@pytest.fixture
def in_background() -> Iterator[Callable[[str], None]]:
    """Starts a command that serves, waits for its first line, and ends it with the test."""
    with ExitStack() as served:

        def start(command: str) -> None:
            one = subprocess.Popen([sys.executable, "-m", *shlex.split(command)], stdout=subprocess.PIPE, text=True)
            served.enter_context(one)
            served.callback(one.terminate)
            assert next(iter(one.stdout or ()), ""), command

        yield start


RUN = [page for page in OTHERS if commands(page, "sh") or any(kind == "console" for kind, _ in fenced(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_command_of_a_page_runs_in_turn_and_prints_what_the_page_shows(
    page, monkeypatch, tmp_path, home, capsys, in_background
):
    (tmp_path / "slice.nt").write_text(SLICE)
    (tmp_path / "questions.jsonl").write_text("".join(blocks(page, "jsonl")))
    monkeypatch.chdir(tmp_path)
    for kind, block in fenced(page):
        if title := re.search(r'title="([^"]+)"', kind):
            (tmp_path / title[1]).write_text(block, encoding="utf-8")
        for command in _commands(block) if kind == "sh" else []:
            if command.startswith("kbnav sparql serve "):
                in_background(command)
            else:
                assert run_command(command, monkeypatch) == 0, command
        for command, pieces in examples(block) if kind == "console" else []:
            capsys.readouterr()
            assert run_command(command, monkeypatch) == 0, command
            printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
            for piece in pieces:
                assert piece in printed, command


@pytest.mark.parametrize("command", LIVE)
def test_commands_that_need_a_service_say_what_is_missing(command, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(command, monkeypatch) == 3
    assert re.search("KBNAV_CONTACT|OPENAI_API_KEY", capsys.readouterr().err)


def run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_the_readmes_example_is_what_the_command_prints(monkeypatch, capsys, home):
    block = next(block for block in blocks(ROOT / "README.md", "") if block.startswith("$ "))
    command, _, printed = block.removeprefix("$ ").partition("\n")
    assert run_command(command, monkeypatch) == 0
    assert printed in capsys.readouterr().out


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
