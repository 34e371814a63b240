"""Fixtures that every test may use."""

import gc
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import langgraph.graph  # noqa: F401 - pytest parses it again as it is imported, which Python 3.11 cannot do beside threads
import pytest
import requests
from hypothesis import HealthCheck, settings
from vcr.persisters.filesystem import FilesystemPersister

from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import bundled_skb, open_kb
from kbnav.settings.model import Settings
from tests.apps.parts import Cli
from tests.built import kept
from tests.ending import pytest_unconfigure
from tests.marked import nothing_secret_is_left

__all__ = ["nothing_secret_is_left", "pytest_unconfigure"]
ROOT = Path(__file__).resolve().parent.parent

# No test is failed by a busy machine; --hypothesis-profile=deep tries more, as make long-test does.
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", quick)
settings.register_profile("deep", quick, max_examples=1000)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is done in a browser, which ``make page-test`` runs."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.page)


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: the collector of garbage need not look at it again."""
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than there are processors, as tests of servers wait for half of their time."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Ctrl-C ends what tests start, also where a shell runs them in the background, which lets it be ignored."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the checkout (``KBNAV_TEST_DATA`` overrides it); tests skip where it is absent."""
    folder = Path(os.environ.get("KBNAV_TEST_DATA", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is absent (set KBNAV_TEST_DATA)")
    return folder


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the state, the settings or the keys of the person who runs it."""
    for name in [name for name in os.environ if name.startswith(("KBNAV_", "OPENAI_")) and name != "KBNAV_TEST_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KBNAV_HOME", str(tmp_path / "kbnav-home"))


SECRET_HEADERS = frozenset({"authorization", "cookie", "set-cookie", "x-api-key"})


def scrub(headers: dict[str, Any]) -> None:
    """Drop what no recording may hold, whatever the case of its name."""
    for name in [name for name in headers if name.casefold() in SECRET_HEADERS]:
        del headers[name]


def _scrub_request(request: Any) -> Any:
    scrub(request.headers)
    return request


RECORDED_AT = "Thu, 01 Jan 2026 00:00:00 GMT"
"""Stands in every recording for the time it was made at, so that one made again differs by what was said only."""
_INDEXED = re.compile(rb'(?<="timestamp":")[^"]*')
"""When the mirror that answers a search was built."""
_BLANK = re.compile(rb'(?<="type":"bnode","value":")[^"]*')
"""A blank node, which each build of the mirror names anew."""


def _scrub_response(response: dict[str, Any]) -> dict[str, Any]:
    headers = response["headers"]
    scrub(headers)
    headers.update({name: [RECORDED_AT] for name in headers if name.casefold() == "date"})
    body = response["body"]
    names: dict[bytes, bytes] = {}
    dated = _INDEXED.sub(b"2026-01-01T00:00:00Z", body["string"])
    body["string"] = _BLANK.sub(
        lambda node: names.setdefault(node[0], b"b%0*d" % (len(node[0]) - 1, len(names))), dated
    )
    return response


class InOrder(FilesystemPersister):
    """Writes what was asked between two calls of a model in an order that does not hang on threads."""

    @staticmethod
    def save_cassette(cassette_path: Any, cassette_dict: Any, serializer: Any) -> None:
        """Put requests that change nothing in the order of their addresses, and save."""
        pairs = zip(cassette_dict["requests"], cassette_dict["responses"], strict=True)
        ordered: list[tuple[Any, Any]] = []
        for reads, group in groupby(pairs, key=lambda pair: pair[0].method == "GET"):
            ordered += sorted(group, key=lambda pair: pair[0].uri if reads else "")
        inside = {"requests": [asked for asked, _ in ordered], "responses": [said for _, said in ordered]}
        FilesystemPersister.save_cassette(cassette_path, inside, serializer)


def pytest_recording_configure(config: pytest.Config, vcr: Any) -> None:
    """How recordings are written."""
    vcr.register_persister(InOrder)


@pytest.fixture(scope="module")
def vcr_config() -> dict[str, Any]:
    """How HTTP is recorded and matched; recordings are replayed only, unless ``--record-mode`` says otherwise."""
    return {
        "match_on": ["method", "scheme", "host", "port", "path", "query", "body"],
        "before_record_request": _scrub_request,
        "before_record_response": _scrub_response,
        "decode_compressed_response": True,
    }


@pytest.fixture(scope="module")
def vcr_cassette_dir(request: pytest.FixtureRequest) -> str:
    """The folder of a module's cassettes: ``cassettes/<test module>``."""
    return str(ROOT / "cassettes" / request.node.path.stem)


@pytest.fixture(autouse=True)
def one_request_at_a_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings are not safe for threads: what threads send at once would pass them by."""
    if request.node.get_closest_marker("vcr") is None:
        return
    lock, send = threading.RLock(), requests.Session.send

    def one(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return send(*args, **kwargs)

    monkeypatch.setattr(requests.Session, "send", one)


@pytest.fixture
def kbnav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, as it is run in the test's own folder and home."""
    monkeypatch.chdir(tmp_path)
    return Cli(monkeypatch, capsys)


@pytest.fixture(scope="session")
def mini_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the bundled mirror is unpacked once for all tests."""
    return tmp_path_factory.mktemp("mini-home")


@pytest.fixture
def home(mini_home: Path, demo_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, with the bundled mirror already unpacked and the demo SKB built."""
    folder = tmp_path / "home"
    folder.mkdir()
    (mini_home / "mirrors").mkdir(exist_ok=True)
    (folder / "mirrors").symlink_to(mini_home / "mirrors")
    (folder / "skbs").symlink_to(demo_home / "skbs")
    monkeypatch.setenv("KBNAV_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture(scope="session")
def mini_kb(mini_home: Path) -> Iterator[KnowledgeBase]:
    """The bundled mirror, asked in this process."""
    with open_kb(Settings(kb="mini", home=mini_home)) as kb:
        yield kb


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which the demo SKB is built once for all tests."""
    home = tmp_path_factory.mktemp("demo-home")

    def make(folder: Path) -> None:
        bundled_skb(folder)

    return Path(shutil.copytree(kept(tmp_path_factory, "demo-home", make), home, dirs_exist_ok=True))


@pytest.fixture(scope="session")
def demo_kb(demo_home: Path) -> Iterator[KnowledgeBase]:
    """The bundled demo SKB."""
    with open_kb(Settings(kb="demo", home=demo_home)) as kb:
        yield kb
