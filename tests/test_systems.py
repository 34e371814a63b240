"""The registry of everything that answers, and systems of other people's in it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kbnav.agents.common.agent import build_agent
from kbnav.errors import UsageError
from kbnav.evaluation.records import read_saved_run
from kbnav.evaluation.scoring import score_run
from kbnav.knowledge.open import open_kb
from kbnav.retrieval.base import build_retriever
from kbnav.settings import systems
from kbnav.settings.model import Settings, load_settings
from tests.apps.parts import Cli
from tests.conftest import ROOT
from tests.evaluation.parts import mini_dataset

STRANGE = '''
"""A module of somebody else's."""
from __future__ import annotations
from typing import TYPE_CHECKING

from pydantic import Field

from kbnav.agents.common.agent import Agent
from kbnav.agents.common.answering import QueryEnding
from kbnav.agents.common.answering import write_plainly
from kbnav.agents.common.state import Reply
from kbnav.answers.tables import Ranked, Ranking
from kbnav.settings.systems import Options
from kbnav.settings.systems import SystemEntry
from kbnav.tools.wikidata import execute_query
from kbnav.tools.wikidata import finish
from kbnav.tools.context import Shown
from kbnav.tools.context import prune_by_ranking
from kbnav.tools.toolbox import Toolbox
from kbnav.runs.trajectory import Call

if TYPE_CHECKING:
    from kbnav.settings.model import Settings

class CountOptions(Options):
    who: int = Field(default=7186, ge=1)
    """Number of a person."""

def agent(kb, settings: Settings, options: CountOptions):
    """Lists what a person discovered, whatever the question."""
    toolbox = Toolbox.for_kb(kb, [execute_query, finish])
    query = f"SELECT ?x WHERE {{ ?x wdt:P61 wd:Q{options.who} }}"
    def policy(state, context):
        if not state["path"]:
            return Reply([Call("execute_query", {"query": query}, "Ask.", turn=1)])
        return Reply([Call("finish", {}, "Done.", turn=2)])
    return Agent("lister", "none", kb, settings, policy, toolbox, QueryEnding(write_plainly), prune_by_ranking(Shown()))

class First:
    name, prompts = "first", {}
    def __init__(self, skb):
        self.skb = skb
    def retrieve(self, query, k, trace=None):
        return Ranking(tuple(Ranked(self.skb.id(n), 1.0 / (n + 1), self.skb.name(n)) for n in range(k)))

def retriever(kb, settings):
    """The first nodes, whatever the query."""
    return First(kb.skb)

def crashing(kb, settings):
    """Fails as it is built."""
    return {}["gone"]

listed = SystemEntry("anything", "The first nodes.", retriever, "retriever", kbs=("skb",))
def wrong(kb, settings):
    return "neither"

def unclear(kb, settings, options: int):
    return None
'''


@pytest.fixture
def folder(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A working folder of somebody's with a module ``strange``, the mini mirror and the demo SKB at hand."""
    (tmp_path / "strange.py").write_text(STRANGE)
    (tmp_path / "broken.py").write_text("import nosuchpackage\n")
    (tmp_path / "failing.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("strange", "broken", "failing"):
        sys.modules.pop(name, None)


@pytest.fixture
def kbnav(folder: Path, kbnav: Cli):
    return kbnav


@pytest.fixture
def installed(folder: Path) -> Path:
    """Another package, installed: a retriever of its own, one that takes the name bm25, and one that is broken."""
    about = folder / "stranger-2.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 2.0\n")
    (about / "entry_points.txt").write_text(
        "[kbnav.systems]\nfirst = strange:listed\nlister = strange:agent\nbm25 = strange:retriever\n"
        "lost = broken:build\ncrashed = failing:build\n"
    )
    sys.path.append(str(folder))
    return folder


def test_every_system_is_registered_and_says_all_of_itself():
    entries = {entry.name: entry for entry in systems.BUILT_IN}
    agents = {f"kbnav.agents.{path.stem}" for path in (ROOT / "agents").glob("*.py")} - {"kbnav.agents.machine"}
    assert agents == {str(one.build).partition(":")[0] for one in entries.values() if one.kind == "agent"}
    pages = (ROOT / "docs" / "systems.md").read_text()
    for entry in entries.values():
        record = entry.record()
        assert callable(entry.builder())
        assert record["about"].endswith(".")
        assert record["paper"].partition("arXiv:")[2] in pages, entry.name
        assert bool(record["paper"]) == (entry.name not in ("skb", "graph-rank"))
        assert all(option["about"] and option["type"] for option in record["options"]), record
    about = "Documents of the first retrieval that are used."
    initial = {"name": "initial", "type": "a whole number, at least 1", "default": 3, "about": about}
    assert initial in entries["prf"].record()["options"]
    types = {option["name"]: option["type"] for option in entries["tog"].record()["options"]}
    assert types["prune"] == "one of model, bm25, embedding"
    assert types["width"] == "a whole number from 1 to 10"


def test_what_needs_no_model_and_no_vectors_answers_without(demo_kb, tmp_path):
    for entry in systems.BUILT_IN:
        assert entry.runs_with("gpt-5")
        if "training" in entry.needs:
            with pytest.raises(UsageError, match="kbnav train"):
                systems.build(entry.name, demo_kb, Settings(home=tmp_path))
        elif entry.kind == "retriever" and "skb" in entry.kbs:
            assert build_retriever(entry.name, demo_kb, Settings(home=tmp_path)).name == entry.name
        elif not entry.runs_with("offline"):
            with pytest.raises(UsageError, match="needs a model"):
                systems.build(entry.name, demo_kb, Settings(home=tmp_path))


def test_an_agent_of_ones_own_is_asked_chatted_with_and_evaluated(kbnav, folder):
    answer = json.loads(kbnav.out("ask", "--system", "strange:agent", "--set", "who=37463", "--json", "Who?"))
    assert answer["query"] == "SELECT ?x WHERE { ?x wdt:P61 wd:Q37463 }"
    told = kbnav.out("chat", "--system", "strange:agent", typed="Who?\nWho else?\n\n")
    assert told.count("every step:") == 2
    mini_dataset(folder / "mini.jsonl")
    asked = ("mini.jsonl", "--kb", "mini", "--limit", "2", "--out", "run")
    kbnav.out("eval", "run", *asked, *(of := ("--system", "strange:agent")))
    saved = read_saved_run(folder / "run")
    assert (saved.info.system, saved.info.named) == ("lister", "strange:agent")
    assert "--system strange:agent" in kbnav.refused("eval", "repeat", "run", "--out", "again")
    assert "changed since run: nothing" in kbnav.out("eval", "repeat", "run", "--out", "again", *of)
    assert saved.info.settings["options"] == {"who": 7186}
    assert all(record.run.outcome.table is not None for record in saved.records.values())


def test_a_retriever_of_ones_own_is_asked_and_evaluated(kbnav, folder):
    out = kbnav.out("retrieve", "--kb", "demo", "--system", "strange:retriever", "--k", "3", "--json", "anything")
    assert [node["score"] for node in json.loads(out)["ranking"]] == [1.0, 0.5, 1 / 3]
    question = {"id": "1", "question": "ship:patience", "nodes": ["x"]}
    (folder / "mine.jsonl").write_text(json.dumps(question) + "\n")
    kbnav.out("eval", "run", "mine.jsonl", "--kb", "demo", "--out", "run", "--system", "strange:listed")
    saved = read_saved_run(folder / "run")
    assert (saved.info.system, saved.records["1"].run.outcome.ranking.nodes[0].score) == ("first", 1.0)
    assert "name or id" in kbnav("retrieve", "--kb", "demo", "--system", "strange:retriever", "ship:patience")[2]


def test_installed_packages_add_systems_and_take_no_name_away(kbnav, installed):
    records = {record["name"]: record for record in json.loads(kbnav("systems", "--json")[1])}
    assert (records["lister"]["from"], records["lister"]["kind"]) == ("stranger", None)
    assert (records["first"]["from"], records["first"]["kind"]) == ("stranger", "retriever")
    assert records["bm25"]["from"] == "kbnav"
    assert "needs nosuchpackage, which is not installed" in records["lost"]["about"]
    assert "cannot be imported: ZeroDivisionError" in records["crashed"]["about"]
    out = kbnav("systems")[1]
    assert "Others" in out
    assert "(stranger)" in out
    assert kbnav("ask", "--quiet", "--system", "lister", "Who?")[0] == 0
    assert kbnav("retrieve", "--kb", "demo", "--system", "first", "anything")[0] == 0
    assert kbnav.refused("ask", "--system", "lost", "Who?").count("\n") == 1
    assert "did you mean 'lister'" in kbnav("ask", "--system", "listr", "Who?")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "--system", "spinahc"], "no agent 'spinahc'; did you mean 'spinach'?"),
        (["ask", "--system", "bm25"], "bm25 is a retriever: it ranks nodes and writes no answer; ask it by kbnav retr"),
        (["retrieve", "--system", "skb", "--kb", "demo"], "skb is an agent and no retriever; ask it by kbnav ask"),
        (["retrieve", "--system", "strange:listed", "--kb", "mini"], "the system strange:listed needs an SKB"),
        (["ask", "--system", "strange:agent", "--set", "hwo=1"], "there are: who; did you mean 'who'?"),
        (["ask", "--system", "strange:agent", "--set", "who=0"], "strange:agent: who: Input should be greater than"),
        (["ask", "--system", "nowhere:build"], "nowhere:build: there is no module 'nowhere', here or installed"),
        (["ask", "--system", "strange:agnet"], "strange has no 'agnet'; did you mean 'agent'?"),
        (["ask", "--system", "strange:wrong"], "strange:wrong builds a str, which is neither an Agent nor a Retriever"),
        (["ask", "--system", "strange:unclear"], "options of unclear must be of a subclass of Options"),
        (["ask", "--system", "broken:build"], "broken:build: broken needs nosuchpackage, which is not installed"),
        (["ask", "--system", "failing:build"], "failing cannot be imported: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_clear_line(kbnav, arguments, said):
    error = kbnav.refused(*arguments, "--model", "offline", "Who?")
    assert (said in error, error.count("\n")) == (True, 1)


TOOLS = '''
from kbnav.evaluation.datasets.records import Question

def shout(context, thought: str, words: str = "") -> str:
    """Shout.

    Args:
        thought: Why.
        words: What.
    """
    return words.upper()

def silent(context, thought: str, words: str) -> str:
    return words

def bare(words: str) -> str:
    """Say."""
    return words

def questions(folder):
    yield Question("1", {"en": "Who discovered polonium?"}, query="SELECT ?x { wd:Q979 wdt:P61 ?x }")
'''


def test_packages_and_modules_add_tools_and_datasets(kbnav, installed, caplog):
    (installed / "more.py").write_text(TOOLS)
    points = installed / "stranger-2.0.dist-info" / "entry_points.txt"
    points.write_text("[kbnav.tools]\nloud = more:shout\n\n[kbnav.datasets]\npolonium = more:questions\n")
    run = ("eval", "run", "polonium", "--kb", "mini", "--system", "spinach")
    assert kbnav(*run, "--out", "run", "--set", "with_tools=loud,more:shout")[0] == 0
    saved = read_saved_run(installed / "run")
    assert (saved.info.dataset, saved.info.questions) == ("polonium", ("1",))
    assert saved.info.settings["with_tools"] == ["loud", "more:shout"]
    assert "loud, more:shout will not be called" in caplog.text  # the rules choose no tool
    assert score_run(saved).all.values["em"] == 1.0
    assert "polonium" in kbnav("eval", "dataset", "list")[1]
    assert "'polonim'; did you mean 'polonium'?" in kbnav("eval", "run", "polonim", "--out", "b")[2]
    tools = [
        ("lout", "no tool 'lout'; did you mean 'loud'?"),
        ("more:silent", "more:silent cannot be a tool; it needs a docstring"),
    ]
    tools += [("more:bare", "must begin with context and thought"), ("more:questions", "cannot be a tool")]
    for tool, said in tools:
        error = kbnav.refused("ask", "--set", f"with_tools={tool}", "Who?")
        assert (said in error, error.count("\n")) == (True, 1)
    with open_kb(Settings(kb="mini")) as kb:
        toolbox = build_agent(kb, Settings(kb="mini", with_tools=("loud",))).toolbox
        assert toolbox.names[-2:] == ["shout", "finish"]
        assert toolbox.run(None, "shout", "", {"words": "what"}).text == "WHAT"
    sys.modules.pop("more")


def test_an_exception_of_a_plug_in_is_one_line_and_its_traceback_is_there_for_the_asking(kbnav, folder):
    code, _, error = kbnav("ask", "--system", "strange:crashing", "Who?")
    assert (code, error) == (70, "kbnav: KeyError: 'gone' (kbnav --debug … prints the traceback)\n")
    code, _, error = kbnav("ask", "--debug", "--system", "strange:crashing", "Who?")
    assert (code, error.count("Traceback"), error.count("in crashing")) == (70, 1, 1)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "KBNAV_API_KEY"])
def test_a_key_is_read_from_the_environment_and_never_shown(monkeypatch, name):
    monkeypatch.setenv(name, "sk-nevertobeleft")
    settings = load_settings()
    assert settings.api_key.get_secret_value() == "sk-nevertobeleft"
    assert "sk-nevertobeleft" not in repr(settings)
    assert "sk-nevertobeleft" not in str(settings.public())
    assert load_settings(api_key="own-nevertobeleft").api_key.get_secret_value() == "own-nevertobeleft"  # given first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps = 3\n", "steps"),
        ("[budget]\nstepz = 3\n", "budget.stepz"),
        ("[budget]\nsteps = 'many'\n", "budget.steps"),
        ("model = ", "kbnav.toml"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(empty_folder, text, said):
    (empty_folder / "kbnav.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_settings()
