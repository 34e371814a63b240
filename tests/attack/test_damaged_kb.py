"""A server one of whose knowledge bases cannot be read: it starts, says so, and answers on the others."""

import json
import shutil
from pathlib import Path

import pytest

from kbnav.apps.web.service import open_service
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from tests.apps.web.parts import Server, Visit, web_settings
from tests.attack.parts import POLONIUM


@pytest.fixture
def broken(demo_kb: SkbKB, tmp_path: Path) -> Path:
    """A copy of the bundled SKB."""
    return Path(shutil.copytree(demo_kb.skb.place, tmp_path / "broken", symlinks=True))


def spoil(folder: Path, name: str, header: str = "") -> None:
    """Fill a file with nonsense; with a header, as an array that has this one."""
    path = folder / json.loads((folder / "meta.json").read_bytes())["data"] / name
    path.chmod(0o600)
    begin = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header.encode() if header else b""
    path.write_bytes(begin.ljust(path.stat().st_size, b"#"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["text/meta.json", "names/names.json", "vectors/vectors.npy", "graph/out-start.npy", "nodes/ids-order.npy"]
)
def test_a_server_starts_without_the_one_whose_index_does_not_open(fresh_home, broken, name):
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


def test_a_server_that_could_answer_nothing_does_not_start(fresh_home, broken):
    spoil(broken, "text/meta.json")
    with pytest.raises(DataError):
        Server(web_settings(fresh_home, str(broken)))


@pytest.mark.parametrize(
    "header",
    [
        "'''",
        "((((((",
        "{[]: 1}",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999999999999999,)}",
        "{'descr': {}, 'fortran_order': False, 'shape': (1,)}",
    ],
)
def test_a_server_starts_beside_an_array_whose_header_cannot_be_read(fresh_home, broken, header):
    spoil(broken, "graph/out-start.npy", header)
    with open_service(web_settings(fresh_home, "mini", str(broken))) as service:
        assert list(service.kbs) == ["mini"]
        assert "out-start.npy" in service.absent["broken"]


@pytest.mark.parametrize("together", ["mini + demo", "demo + mini"])
def test_what_no_agent_asks_together_is_refused_at_the_start(fresh_home, together):
    settings = web_settings(fresh_home, "mini", together)
    with pytest.raises(UsageError, match="demo: nodes of an SKB") as told, open_service(settings):
        pass
    assert len(str(told.value).splitlines()) == 1
