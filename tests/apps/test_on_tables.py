"""The command line, chats, evaluations, the page and MCP on an SKB in tables of LanceDB: as on it in a folder."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kbnav.knowledge.open import bundled_skb
from kbnav.knowledge.skb.lance import write
from kbnav.knowledge.skb.store import SKB
from tests.apps.parts import Cli
from tests.apps.web.parts import Server, Visit, web_settings

QUESTION = "Which instrument made by somebody from Little Mew has a love letter hidden in it?"


@pytest.fixture(scope="module")
def places(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The demo in its folder, and in tables."""
    folder, tables = bundled_skb(demo_home), tmp_path_factory.mktemp("apps") / "tables"
    with SKB.open(folder) as skb:
        write(skb, str(tables))
    return str(folder), str(tables)


def by_ask(place: str, kbnav: Cli, home: Path) -> Any:
    out = kbnav.out("ask", "--kb", place, "--json", QUESTION)
    answer = json.loads(out)
    assert answer["answer"].startswith("The Brown Eye")
    return {name: answer[name] for name in ("answer", "understood", "actions", "ranking")}


def by_the_page(place: str, kbnav: Cli, home: Path) -> Any:
    with Server(web_settings(home, place)) as server:
        visit = Visit(server.url)
        (kb,) = visit("GET", "/api/options").json()["kbs"]
        run = visit.answered(visit.session(), QUESTION)
        assert run["status"] == "done"
        rows = visit("GET", f"/api/results/{run['answer']['result']['id']}/rows").json()["rows"]
        evidence = visit("GET", f"/api/results/{run['answer']['result']['id']}/evidence?row=0").json()["rows"]
        return run["answer"]["text"], kb["systems"], [[cell["text"] for cell in row] for row in rows], evidence and [
            [one["text"] for one in row] for row in evidence
        ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("door", [by_ask, by_the_page])
def test_every_door_leads_to_the_same_answer(places, door, tmp_path, monkeypatch, capsys):
    told = []
    for place, name in zip(places, ("folder", "tables"), strict=True):
        home = tmp_path / name
        home.mkdir()
        monkeypatch.chdir(home)
        monkeypatch.setenv("KBNAV_HOME", str(home))
        told.append(door(place, Cli(monkeypatch, capsys), home))
    assert told[0]
    assert told[1] == told[0]


def test_without_the_extra_one_line_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "builds.lance").mkdir()
    for command in (
        ("ask", "--kb", str(tmp_path), QUESTION),
        ("skb", "info", str(tmp_path)),
        ("skb", "copy", "demo", "--out", "s3://a/b"),
    ):
        code, out, error = Cli(monkeypatch, capsys)(*command)
        assert (code, out) == (2, "")
        assert "pip install 'kbnav[lance]'" in error
        assert len(error.strip().splitlines()) == 1
