"""A disk that is full at any write, or that may only be read: what was found is told, what was kept stays."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.apps.web.service import open_service
from kbnav.errors import DataError, UsageError
from kbnav.evaluation.records import read_records
from kbnav.knowledge.http_store import HttpCache, Throttle
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.models.calls import Blobs
from kbnav.runs.trajectory import load_run
from tests.apps.web.conftest import linked_home
from tests.apps.web.parts import Server, Visit, served_process, web_settings
from tests.attack.parts import POLONIUM
from tests.ending import until
from tests.evaluation.parts import mini_dataset
from tests.programs.test_training import files, trained
from tests.services import database_in

QUESTION = "Which elements were discovered by Marie Curie?"
DISCOVERED = "Who discovered polonium?"
SLOW = pytest.mark.slow
PAGES = (pytest.param(0, marks=SLOW), 1, pytest.param(3, marks=SLOW), pytest.param(8, marks=SLOW))
"""Pages of 4 KiB that are free: the write that fails is another each time."""


@contextmanager
def mounted(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of that size in a folder; the test is skipped where none may be mounted."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=0700", "tmpfs", folder]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


def fill(folder: Path, *, leave: int = 0) -> None:
    """Leave so many bytes free, in whole pages."""
    with suppress(OSError), (folder / "ballast").open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass
    size = (folder / "ballast").stat().st_size
    with (folder / "ballast").open("r+b") as file:
        file.truncate(max(0, size - leave))


@pytest.fixture
def small_home(
    mini_home: Path, demo_home: Path, mini_kb: object, demo_kb: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A home on a disk of 256 KiB, which leads to the bundled knowledge bases."""
    with mounted(tmp_path / "home", 256) as home:
        linked_home(home, mini_home, demo_home)
        monkeypatch.setenv("KBNAV_HOME", str(home))
        monkeypatch.setenv("COLUMNS", "200")
        yield home


def told(text: str) -> list[str]:
    """The lines that say that something could not be written."""
    return [line for line in text.splitlines() if re.search("o space left|disk is full|disk I/O error", line)]


@pytest.mark.parametrize(
    "form",
    [[], pytest.param(["--json"], marks=SLOW), pytest.param(["--csv"], marks=SLOW)],
    ids=["people", "json", "csv"],
)
@pytest.mark.parametrize("pages", [0, pytest.param(1, marks=SLOW)])
def test_ask_on_a_full_disk_prints_the_answer_and_names_the_file(small_home, kbnav, form, pages):
    fill(small_home, leave=4096 * pages)
    code, out, error = kbnav("ask", "-q", *form, DISCOVERED)
    assert code == 0
    assert "Marie Curie" in out or "Q7186" in out
    (line,) = told(out + error)
    assert re.search(r"cannot save the run to \S+/runs/run-\S+\.json: No space left on device", line)
    assert "kbnav show" not in out
    assert not list(small_home.glob("runs/*"))


@pytest.mark.parametrize("pages", PAGES)
def test_a_chat_names_the_file_wherever_the_disk_becomes_full(small_home, kbnav, pages):
    fill(small_home, leave=4096 * pages)
    code, out, error = kbnav("chat", "-q", "--kb", "mini", typed=f"{DISCOVERED}\nAnd radium?\n{QUESTION}\n")
    lines = told(out + error)
    assert code in (0, 2)
    assert all(re.search(r"/(sessions\.sqlite|runs/run-\S+\.json)", line) for line in lines)
    assert lines or pages > 2
    for path in small_home.glob("runs/*.json"):
        load_run(path)


@pytest.mark.slow
def test_an_evaluation_on_a_full_disk_ends_with_one_line_keeps_what_it_has_and_goes_on(
    small_home, mini_home, kbnav, tmp_path, monkeypatch
):
    monkeypatch.setenv("KBNAV_HOME", str(mini_home))
    mini_dataset(tmp_path / "mini.jsonl")
    out = small_home / "out"
    command = ["eval", "run", "mini.jsonl", "--kb", "mini", "--limit", "6", "--out", str(out)]
    ended = []
    for pages in (0, 1, 2, 4, 6, 60):
        fill(small_home, leave=4096 * pages)
        before = read_records(out) if out.exists() else {}
        code, _, error = kbnav(*command)
        kept = read_records(out)
        assert before.items() <= kept.items()
        if code:
            (line,) = told(error)
            assert str(out) in line
            assert code == 2
        ended.append((code, len(kept)))
    assert ended[0] == (2, 0)
    assert ended[-1] == (0, 6)
    assert any(0 < count < 6 for _, count in ended)


def test_a_training_on_a_full_disk_names_the_file_keeps_its_steps_and_goes_on_to_the_same_programs(tmp_path):
    trained(tmp_path / "whole")
    with mounted(tmp_path / "disk", 256) as disk:
        out, ended = disk / "made", []
        for pages in (0, 1, 2, 3, 4, 6, 8, 12, 60):
            fill(disk, leave=4096 * pages)
            before = {path: path.read_bytes() for path in out.rglob("*.jsonl")}
            try:
                trained(out)
            except UsageError as error:
                ended.append(str(error))
            else:
                break
            for path, lines in before.items():
                assert path.read_bytes().startswith(lines)
        assert all(re.match(rf"{out}/\S+: cannot be written: No space left on device", said) for said in ended)
        assert len({said.partition(":")[0] for said in ended}) >= 3
        assert files(out) == files(tmp_path / "whole")


def test_a_bots_state_that_cannot_be_written_is_one_line_and_what_was_kept_stays(tmp_path):
    question = Question("q1", "Talk:A", "A", "Ann", "now", "Who?", 0)
    with mounted(tmp_path / "home", 256) as home:
        ledger = Ledger(home / "bot.sqlite")
        assert ledger.add(question, 1.0)
        fill(home)
        with pytest.raises(UsageError, match=r"/bot\.sqlite: the bot's state cannot be kept"):
            ledger.update("q1", 2.0, note="x" * 1_000_000)
        ledger.close()
        (home / "ballast").unlink()
        again = Ledger(home / "bot.sqlite")
        assert [entry.question.id for entry in again.entries()] == ["q1"]
        again.close()


@pytest.mark.parametrize(
    "command",
    [
        ["ask", "-q", DISCOVERED],
        pytest.param(["chat", "-q"], marks=SLOW),
        pytest.param(["retrieve", "--kb", "demo", "letter"], marks=SLOW),
    ],
)
def test_a_home_that_may_only_be_read_gives_the_answer_or_one_line(
    mini_home, demo_home, mini_kb, demo_kb, tmp_path, monkeypatch, kbnav, command
):
    with mounted(tmp_path / "home", 256) as home:
        linked_home(home, mini_home, demo_home)
        subprocess.run(["mount", "-o", "remount,ro", home], check=True)
        monkeypatch.setenv("KBNAV_HOME", str(home))
        monkeypatch.setenv("COLUMNS", "200")
        code, out, error = kbnav(*command, typed=f"{DISCOVERED}\n")
    assert code in (0, 2)
    assert "Traceback" not in out + error
    assert ("Curie" in out or "nstrument" in out) == (code == 0)
    assert f"{home}/" in out + error
    assert "Read-only file system" in out + error


def test_sessions_that_are_damaged_are_named_and_left_as_they_are(small_home, kbnav):
    (small_home / "sessions.sqlite").write_bytes(b"damaged" * 1000)
    error = kbnav.refused("chat", "-q", "--kb", "mini")
    assert f"{small_home}/sessions.sqlite: cannot keep chat sessions here (file is not a database)" in error
    assert (small_home / "sessions.sqlite").read_bytes() == b"damaged" * 1000


@pytest.mark.parametrize(
    "use", [lambda path: Blobs(path, "things"), Throttle, lambda path: HttpCache(path, age=1.0), Ledger]
)
def test_a_damaged_file_of_the_home_is_named(tmp_path, use):
    path = tmp_path / "a-file.sqlite"
    path.write_bytes(b"damaged" * 1000)
    with pytest.raises(UsageError, match=r"/a-file\.sqlite.*not a database"):
        use(path)
    assert path.read_bytes() == b"damaged" * 1000


def small_records(folder: Path) -> None:
    """Records and RDF that take more room than a small disk has."""
    text = " ".join(f"word{number}" for number in range(200))
    lines = [json.dumps({"id": f"n{one}", "name": f"node {one}", "type": "t", "text": text}) for one in range(300)]
    (folder / "n.jsonl").write_text("\n".join(lines))
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    rdf = [f'<http://www.wikidata.org/entity/Q{one}> {label} "name {one}"@en .\n' for one in range(1, 3000)]
    (folder / "m.nt").write_text("".join(rdf))


@pytest.mark.parametrize(
    ("command", "kilobytes"),
    [
        (["skb", "build", "--nodes", "n.jsonl", "--encoder", "lsa", "--no-sparql", "--out"], (64, 256, 700)),
        (["mirror", "build", "m.nt", "--out"], (64, 300)),
    ],
    ids=["skb", "mirror"],
)
def test_a_build_on_a_full_disk_is_one_line_and_leaves_nothing_that_looks_whole(
    tmp_path, monkeypatch, kbnav, command, kilobytes
):
    small_records(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for size in kilobytes:
        with mounted(tmp_path / f"disk{size}", size) as disk:
            code, out, error = kbnav(*command, str(disk / "made"))
            assert code == 2, (size, out, error)
            assert "Traceback" not in out + error
            assert told(error), error
            assert not (disk / "made" / "meta.json").exists()


@pytest.mark.slow
def test_a_server_whose_disk_is_full_says_that_it_is_not_ready_and_is_again_once_there_is_room(
    mini_home, demo_home, mini_kb, demo_kb, tmp_path
):
    with mounted(tmp_path / "home", 128 << 10) as home:
        linked_home(home, mini_home, demo_home)
        with Server(web_settings(home, "mini")) as server:
            visit = Visit(server.url)
            until(lambda: visit("GET", "/ready").status_code == 200)
            (home / "large").write_bytes(bytes(100 << 20))
            until(lambda: visit("GET", "/ready").status_code == 503)
            ready = visit("GET", "/ready").json()
            assert ready["status"] == "not ready"
            assert "MiB" in ready["why"] or "room" in ready["why"] or "disk" in ready["why"]
            assert visit("GET", "/health").status_code == 200
            (home / "large").unlink()
            until(lambda: visit("GET", "/ready").status_code == 200)


@pytest.mark.slow
def test_a_full_postgresql_is_told_within_seconds_and_asked_again_once_there_is_room(fresh_home, database):
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,  # which PostgreSQL's own user can reach
        mounted(Path(folder) / "disk", 64 << 10) as disk,
    ):
        Path(folder).chmod(0o755)
        with (
            database_in(database, disk) as url,
            served_process(fresh_home, environment={"KBNAV_DATABASE": url}) as (address, _),
        ):
            visit = Visit(address)
            of_session = f"/api/sessions/{(session := visit.session(kb='mini'))}/questions", {"question": DISCOVERED}
            alone = "/api/ask", {"question": DISCOVERED, "kb": "mini"}
            until(lambda: visit("GET", "/ready").status_code == 200)
            assert "Curie" in visit("POST", *alone).json()["text"]
            fill(disk)
            for asked in (alone, alone, alone, of_session) * 2:  # more than one reader may have under way
                began = time.monotonic()
                told = visit("POST", *asked)
                assert time.monotonic() - began < 20
                assert (told.status_code, "Retry-After" in told.headers) == (503, True), told.text
                assert "database of sessions is away, full or read-only" in told.json()["detail"]
            until(lambda: visit("GET", "/ready").status_code == 503, seconds=20)
            assert "database" in visit("GET", "/ready").json()["why"]
            (disk / "ballast").unlink()
            until(lambda: visit("GET", "/ready").status_code == 200)
            assert "Curie" in visit("POST", *alone).json()["text"]
            assert "Curie" in visit.answered(session, DISCOVERED)["answer"]["text"]
            fill(disk)  # it is known without a question, too
            until(lambda: visit("GET", "/ready").status_code == 503, seconds=20)
            (disk / "ballast").unlink()
            until(lambda: visit("GET", "/ready").status_code == 200)


def test_a_page_whose_database_is_damaged_does_not_start_and_names_it(mini_home, demo_home, mini_kb, demo_kb, tmp_path):
    (home := tmp_path / "home").mkdir()
    linked_home(home, mini_home, demo_home)
    for name in ("web.sqlite", "sessions.sqlite"):
        (home / name).write_bytes(b"damaged" * 1000)
        with pytest.raises(UsageError, match=name):
            Server(web_settings(home, "mini"))
        assert (home / name).read_bytes() == b"damaged" * 1000
        (home / name).unlink()
        for left in home.glob("*.sqlite*"):
            left.unlink()


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
    "name", ["text/meta.json", "names/meta.json", "vectors/vectors.npy", "graph/out-start.npy", "nodes/ids-order.npy"]
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
    with pytest.raises(UsageError, match="demo: an SKB") as told, open_service(settings):
        pass
    assert len(str(told.value).splitlines()) == 1
