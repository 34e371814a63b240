"""The page on an agent of one's own, followed to the letter, from a clone; ``make wheel-test`` does so from a wheel."""

import hashlib
import importlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import kbnav
from kbnav.answers.tables import Term
from kbnav.errors import TellModel, UsageError
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import score_run
from kbnav.models.scripted import ScriptedModel, says
from kbnav.runs.trajectory import saved_runs
from tests.apps.parts import Cli
from tests.conftest import ROOT
from tests.models.stub import ModelStub, completion
from tests.test_project import blocks, commands, fenced

PAGE = ROOT / "docs" / "new-agent.md"
SCRIPT = "#!{python}\nimport sys\nfrom kbnav.apps.cli import main\nsys.exit(main())\n"


@pytest.fixture
def folder(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody's own, with the files that the page says to write, and the mini mirror unpacked."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "my_agent.py").write_text("\n\n".join(blocks(PAGE, "python")))
    (folder / "my_prompt.md").write_text(blocks(PAGE, "jinja")[0])
    (folder / "questions.jsonl").write_text(blocks(PAGE, "jsonl")[0])
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """``kbnav`` of an environment that was just made: the package under test and what it depends on, nothing else.

    What it depends on is found where it is installed already, which spares the minutes of installing it again.
    """
    env = tmp_path / "env"
    venv.create(env, with_pip=False, symlinks=True)
    places = [Path(kbnav.__file__).parent.parent, Path(sysconfig.get_paths()["purelib"])]
    site = next(env.glob("lib/python*/site-packages"))
    (site / "found.pth").write_text("".join(f"{place}\n" for place in places))
    script = env / "bin" / "kbnav"
    script.write_text(SCRIPT.format(python=env / "bin" / "python"))
    script.chmod(0o755)
    return script


@pytest.mark.slow
def test_the_page_ends_in_an_answer_and_in_scores_in_a_fresh_environment(folder, fresh):
    assert len(blocks(PAGE, "python")[0].splitlines()) < 40
    (folder / "my_agent.py").write_text(blocks(PAGE, "python")[0])
    describe, ask, evaluate = commands(PAGE, "sh")[:3]
    path = f"{fresh.parent}{os.pathsep}{os.environ['PATH']}"
    said = [
        subprocess.run(
            shlex.split(command), env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
        ).stdout
        for command in (describe, ask, evaluate)
    ]
    assert "Says how often a property is used." in said[0]
    assert blocks(PAGE, "text")[0] in said[1]
    saved = read_saved_run(folder / "runs" / "counter")
    assert (saved.info.system, score_run(saved).all.values["em"]) == ("counter", 1.0)


def test_a_retriever_a_dataset_and_a_knowledge_base_of_ones_own(folder, monkeypatch, capsys):
    parts = {head.partition('"')[2].strip('"'): code for head, code in fenced(PAGE) if head.startswith("python title")}
    for name, code in parts.items():
        assert len(code.splitlines()) < 40
        (folder / name).write_text(code)
    monkeypatch.syspath_prepend(folder)
    said = "".join(Cli(monkeypatch, capsys).out(*shlex.split(command)[1:]) for command in commands(PAGE, "sh")[3:])
    ranked = [line for line in said.splitlines() if re.match(r" *\d+\. ", line)]
    assert "Little Mew" in "".join(ranked)
    links = [float(line.split()[-1]) for line in ranked]
    assert links == sorted(links, reverse=True)
    assert score_run(read_saved_run(folder / "runs" / "metals")).all.values["em"] == 1
    own = importlib.import_module("my_kb")
    turtle = (
        """@prefix s: <https://schema.org/> . <urn:a> s:name "Pump A" ; s:color "red" . <urn:b> s:name "Pipe B" ."""
    )
    query = "SELECT ?color { <urn:a> <https://schema.org/color> ?color }"
    replies = [
        says(("search_entities", {"query": "pump"})), says(("execute_query", {"query": query})), says(("finish", {}))
    ]  # fmt: skip
    answer = kbnav.ask("Which color has Pump A?", kb=own.Shop(turtle), model=ScriptedModel(replies=replies))
    assert [step.call.tool for step in answer.steps] == ["search_entities", "execute_query", "finish"]
    assert "Pump A" in answer.steps[0].observation
    assert list(answer.rows) == [{"color": "red"}]
    with kbnav.open(own.Shop(turtle)) as shop:
        assert shop.query("ASK { <urn:a> ?is 'red' }")
        assert not shop.query("ASK { <urn:a> ?is 'blue' }")
        made = shop.query("CONSTRUCT { ?s <urn:is> ?color } WHERE { ?s <https://schema.org/color> ?color }")
        assert made.rows == ((Term("uri", "urn:a"), Term("uri", "urn:is"), Term("literal", "red")),)
        assert [tool.name for tool in kbnav.langchain_tools(shop)] == ["search_entities", "execute_query"]
        with pytest.raises(TellModel, match="has no get_entry"):
            shop.entry("<urn:a>")
    with pytest.raises(UsageError, match="cannot ask shop"):
        kbnav.ask("Which color has Pump A?", kb=own.Shop(turtle))
    unknown = kbnav.ask("How often is nonsense used?", kb="mini", system="my_agent:build")
    assert (unknown.status, unknown.note, len(unknown.steps)) == ("no answer", "no property is called nonsense", 1)


@pytest.mark.parametrize("command", commands(PAGE, "sh live"))
def test_a_model_may_choose_and_a_tool_may_be_added(folder, command, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    query = "SELECT (COUNT(*) AS ?n) WHERE { ?s wdt:P1086 ?o }"
    with ModelStub(
        [
            completion(calls=[("find_property", {"thought": "a", "words": "atomic number"})]),
            completion(calls=[("execute_query", {"thought": "b", "query": query})]),
            completion(calls=[("finish", {"thought": "c"})]),
            completion("It is used 39 times."),
        ]
    ) as stub:
        Cli(monkeypatch, capsys).out(*shlex.split(command)[1:], "--base-url", stub.base_url, "--quiet")
    offered = {tool["function"]["name"] for tool in stub.requests[0]["tools"]}
    assert {"find_property", "execute_query", "finish"} <= offered
    if "build_with_model" in command:
        with pytest.raises(UsageError, match="needs a language model, and none is set"):
            kbnav.ask("How often is it used?", kb="mini", system="my_agent:build_with_model")
        prompt = stub.requests[0]["messages"][0]["content"]
        assert "You have 15 steps. Your tools are find_property, search_entities, execute_query, finish." in prompt
    sys.modules.pop("my_agent")
    (run,) = saved_runs(Path(os.environ["KBNAV_HOME"]) / "runs")
    assert "P1086" in run.read_text()
    own = hashlib.sha256((folder / "my_prompt.md").read_bytes()).hexdigest()
    assert (own in run.read_text()) == ("build_with_model" in command)
