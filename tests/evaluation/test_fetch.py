"""Datasets at hand: downloaded from a server on this machine, resumed, checked, and said where they are not."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES
from kbnav.evaluation.datasets.catalogue import ORIGINS, PAGES, Remote, load_dataset, missing_file
from kbnav.evaluation.datasets.fetch import NOTES, fetch

QUESTIONS = json.dumps(
    [{"id": str(number), "question": f"Who is {number}?", "sparql": "SELECT ?x {}"} for number in range(4000)]
).encode()
DIGEST = hashlib.sha256(QUESTIONS).hexdigest()


@dataclass
class Publisher:
    """A server of one file that may cut off its replies, ignore ranges, or send elsewhere."""

    content: bytes = QUESTIONS
    cut_at: list[int] = field(default_factory=list)
    """For each of the first requests, after how many bytes of the reply the connection ends."""
    ranges: bool = True
    location: str = ""
    status: int = 200
    asked: list[str] = field(default_factory=list)
    """The range of each request, or its whole address where it came by a proxy."""
    url: str = ""


@contextmanager
def published(publisher: Publisher) -> Iterator[Publisher]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            publisher.asked.append(self.path if "://" in self.path else wanted)
            if publisher.location and self.path.endswith("/moved"):
                self.send_response(302)
                self.send_header("Location", publisher.location)
                self.end_headers()
                return
            first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and publisher.ranges else 0
            body = publisher.content[first:]
            self.send_response(publisher.status if publisher.status != 200 else 206 if first else 200)
            if first:
                self.send_header(
                    "Content-Range", f"bytes {first}-{len(publisher.content) - 1}/{len(publisher.content)}"
                )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = publisher.cut_at.pop(0) if publisher.cut_at else len(body)
            self.wfile.write(body[:cut])

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        publisher.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield publisher
        finally:
            server.shutdown()


def origins(publisher: Publisher, path: str = "/dev.json", size: int = len(QUESTIONS), sha256: str = DIGEST):
    return {"spinach-dev": (Remote(publisher.url + path, "spinach/dev.json", size, sha256),)}


def test_a_dataset_is_downloaded_checked_noted_and_read(tmp_path: Path):
    told: list[tuple[str, int, int]] = []
    with published(Publisher()) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher), progress=lambda *one: told.append(one))
        (again,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (file.path, file.size, file.sha256) == (tmp_path / "spinach" / "dev.json", len(QUESTIONS), DIGEST)
    assert (file.new, again.new, publisher.asked) == (True, False, [""])
    assert told[-1] == ("spinach/dev.json", len(QUESTIONS), len(QUESTIONS))
    assert len(load_dataset("spinach-dev", tmp_path)) == 4000
    notes = json.loads((tmp_path / NOTES).read_text())["spinach/dev.json"]
    assert (notes["sha256"], notes["bytes"], notes["url"]) == (DIGEST, len(QUESTIONS), f"{publisher.url}/dev.json")


@pytest.mark.parametrize("ranges", [True, False])
def test_what_was_cut_off_is_gone_on_with_where_the_server_can_and_begun_anew_where_not(tmp_path: Path, ranges: bool):
    with published(Publisher(cut_at=[98_304, 49_152], ranges=ranges)) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert file.sha256 == DIGEST
    assert publisher.asked == ["", "bytes=98304-", "bytes=147456-" if ranges else "bytes=49152-"]
    assert [path.name for path in file.path.parent.iterdir()] == ["dev.json"]


def test_a_download_that_was_given_up_goes_on_when_it_is_called_again(tmp_path: Path):
    with published(Publisher(cut_at=[73_728, 0, 0])) as publisher:
        with pytest.raises(ServiceError, match="what came is kept, and the same command goes on"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher), retries=1)
        assert missing_file("spinach-dev", tmp_path) == tmp_path / "spinach" / "dev.json"
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher), retries=1)
    assert (file.sha256, publisher.asked[-1]) == (DIGEST, "bytes=73728-")


def test_another_file_than_the_known_one_is_refused_and_none_of_it_kept(tmp_path: Path):
    with published(Publisher(content=QUESTIONS.replace(b"Who", b"Wha"))) as publisher:
        with pytest.raises(DataError, match="is not the file that is known"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
        assert list((tmp_path / "spinach").iterdir()) == []
        (tmp_path / "spinach" / "dev.json").write_bytes(b"[]")
        with pytest.raises(DataError, match="move it away and fetch again"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (tmp_path / "spinach" / "dev.json").read_bytes() == b"[]"


def test_more_than_the_file_has_is_not_taken(tmp_path: Path):
    with published(Publisher(content=QUESTIONS * 2)) as publisher, pytest.raises(BadResponse, match="sends more than"):
        fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (tmp_path / "spinach" / "dev.json.part").stat().st_size == 0


def test_a_file_whose_digest_is_not_known_before_is_kept_with_its_digest(tmp_path: Path):
    with published(Publisher()) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher, size=0, sha256=""))
    assert (file.sha256, json.loads((tmp_path / NOTES).read_text())["spinach/dev.json"]["sha256"]) == (DIGEST, DIGEST)


def test_a_redirect_is_followed_on_the_same_host_only(tmp_path: Path):
    with published(Publisher(location="/dev.json")) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher, "/moved"))
    assert file.sha256 == DIGEST
    with published(Publisher()) as elsewhere, published(Publisher(location=f"{elsewhere.url}/dev.json")) as publisher:
        with pytest.raises(BadResponse, match="only the same host is followed"):
            fetch("spinach-dev", tmp_path / "other", origins=origins(publisher, "/moved"))
        assert elsewhere.asked == []


def test_the_environments_proxy_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with published(Publisher()) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        remote = Remote("http://data.example/dev.json", "spinach/dev.json", len(QUESTIONS), DIGEST)
        fetch("spinach-dev", tmp_path, origins={"spinach-dev": (remote,)})
    assert proxy.asked == ["http://data.example/dev.json"]


def test_what_cannot_be_downloaded_is_said_with_where_to_get_it_and_where_to_put_it(tmp_path: Path):
    with pytest.raises(UsageError) as caught:
        fetch("kqa-pro-val", tmp_path)
    assert f"download it by hand, from {PAGES['kqa-pro']}, and put it there: {tmp_path}/kqa-pro/val.json" in str(
        caught.value
    )
    with pytest.raises(UsageError, match="no dataset 'spinach-deb'; did you mean 'spinach-dev'"):
        fetch("spinach-deb", tmp_path)


def test_two_do_not_write_the_same_file(tmp_path: Path):
    import fcntl

    (tmp_path / "spinach").mkdir()
    with published(Publisher()) as publisher, (tmp_path / "spinach" / "dev.json.part").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="is being downloaded by another process"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))


def test_every_dataset_can_be_got_and_every_address_is_one_of_a_commit():
    assert set(ORIGINS) <= set(NAMES)
    assert [name for name, (form, _) in NAMES.items() if name not in ORIGINS and form not in PAGES] == []
    urls = [remote.url for remotes in ORIGINS.values() for remote in remotes]
    assert all(url.startswith("https://") and len(url.split("/")[5]) == 40 for url in urls)


def test_the_known_digests_are_those_of_the_published_files(shared_data: Path):
    """Held against copies of the published files, unpacked."""
    from kbnav.evaluation.datasets.records import File

    held = 0
    for remotes in ORIGINS.values():
        for remote in remotes:
            plain = shared_data / "benchmarks" / remote.path
            packed = plain.with_name(plain.name + ".gz")
            path = packed if packed.exists() else plain
            if remote.sha256 and path.exists():
                content = File.open(path).data
                assert (len(content), hashlib.sha256(content).hexdigest()) == (remote.size, remote.sha256)
                held += 1
    assert held >= 6
