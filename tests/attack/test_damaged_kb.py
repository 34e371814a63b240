"""A server one of whose knowledge bases cannot be read: it starts, says so, and answers on the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb.kb import SkbKB
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.parts import POLONIUM


@pytest.fixture
def broken(demo_kb: SkbKB, tmp_path: Path) -> Path:
    """A copy of the bundled SKB."""
    return Path(shutil.copytree(demo_kb.skb.place, tmp_path / "broken", symlinks=True))


def spoil(folder: Path, name: str) -> None:
    path = folder / json.loads((folder / "meta.json").read_bytes())["data"] / name
    path.chmod(0o600)
    path.write_bytes(b"#" * path.stat().st_size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["text/meta.json", "names/names.json", "vectors/vectors.npy", "graph/out-start.npy", "nodes/ids-order.npy"]
)
def test_a_server_starts_without_the_one_whose_index_does_not_open(fresh_home: Path, broken: Path, name):
    spoil(broken, name)
    with Server(web_settings(fresh_home, str(broken), "mini")) as server:
        visit = Visit(server.url)
        ready = visit("GET", "/ready")
        assert (ready.status_code, ready.json()) == (
            200, {"status": "degraded", "kbs": ["mini"], "out_of_service": ["broken"]},
        )  # fmt: skip
        assert [kb["key"] for kb in visit("GET", "/api/options").json()["kbs"]] == ["mini"]
        for told in (
            visit("POST", "/api/ask", {"question": POLONIUM, "kb": "broken"}),
            visit("POST", "/api/queries", {"query": "ASK {}", "kb": "broken"}),
            visit("GET", "/entry/broken/1"),
        ):
            assert told.status_code == 503
            assert "broken is out of service" in told.json()["detail"]
        answer = visit("POST", "/api/ask", {"question": POLONIUM}).json()
        assert (answer["status"], answer["text"]) == ("answered", "Marie Curie, Pierre Curie")


def test_a_server_that_could_answer_nothing_does_not_start(fresh_home: Path, broken: Path):
    spoil(broken, "text/meta.json")
    with pytest.raises(DataError):
        Server(web_settings(fresh_home, str(broken)))
