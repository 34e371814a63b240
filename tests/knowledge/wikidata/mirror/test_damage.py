"""What becomes of a mirror whose files are damaged, or vanish, while it is served."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from kbnav.knowledge.wikidata.mirror.server import MirrorServer

API = "/w/api.php?action="
SEARCHES = (f"{API}wbsearchentities&search=marie&language=en", f"{API}query&list=search&srsearch=marie")
READS = (f"{API}wbgetentities&ids=Q7186", "/wiki/Special:EntityData/Q7186.json")
LIST = "/sparql?format=json&query=SELECT*{?x%20wdt:P31%20wd:Q5}"
QUERY = "/sparql?format=json&query=SELECT*{?s%20?p%20?o}"


@pytest.fixture
def copy(mini: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mini, tmp_path / "copy"))


def damage_store(mirror: Path) -> None:
    """Overwrite the data, which comes first in these files; what is read to open large ones stays."""
    for path in (mirror / "triples").glob("*.sst"):
        if path.stat().st_size > 10_000:
            with path.open("r+b") as file:
                file.write(b"\xff" * (path.stat().st_size // 2))


def damage_index(mirror: Path) -> None:
    """Overwrite what is behind the first pages."""
    path = mirror / "names.sqlite"
    with path.open("r+b") as file:
        file.seek(8 * 4096)
        file.write(b"\xff" * (path.stat().st_size - 8 * 4096))


@pytest.fixture
def quiet(copy: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[MirrorServer]:
    with MirrorServer(copy, workers=1) as server:
        yield server
    captured = capfd.readouterr()
    assert captured.out + captured.err == ""


def test_a_damaged_store_is_an_error_of_the_server(quiet, copy):
    damage_store(copy)
    for path in (*READS, QUERY):
        reply = requests.get(quiet.url + path, timeout=10)
        assert (reply.status_code, reply.text[:24]) == (500, "500: the mirror failed: "), path
        assert "Traceback" not in reply.text
    assert requests.get(quiet.url, timeout=10).status_code == 200


def test_a_damaged_index_is_an_error_of_the_server(quiet, copy):
    damage_index(copy)
    for path in SEARCHES:
        reply = requests.get(quiet.url + path, timeout=10)
        assert (reply.status_code, reply.text[:24]) == (500, "500: the mirror failed: "), path
    for path in (*READS, QUERY, LIST):
        assert requests.get(quiet.url + path, timeout=10).status_code == 200


def test_a_process_that_cannot_run_queries_is_not_taken_for_one_out_of_memory(copy, monkeypatch, tmp_path):
    (tmp_path / "pyoxigraph.py").write_text("raise ImportError('not for this machine')")
    with MirrorServer(copy) as server:
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        reply = requests.get(server.url + QUERY, timeout=10)
    assert (reply.status_code, reply.text) == (
        500,
        "500: the mirror failed: the process that was to run the query ended unexpectedly\n",
    )
