"""Datasets at hand: downloaded from a server on this machine, checked, and said where they are not."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kbnav.errors import BadResponse, DataError, ServiceError, UsageError
from kbnav.evaluation.datasets import NAMES
from kbnav.evaluation.datasets.catalogue import ORIGINS, Remote, load_dataset
from kbnav.evaluation.datasets.fetch import fetch
from kbnav.evaluation.datasets.records import File

QUESTIONS = json.dumps(
    [{"id": str(number), "question": f"Who is {number}?", "sparql": "SELECT ?x {}"} for number in range(4000)]
).encode()
DIGEST = hashlib.sha256(QUESTIONS).hexdigest()


@dataclass
class Publisher:
    """A server of one file that may cut off its replies, or send elsewhere."""

    content: bytes = QUESTIONS
    cut_at: list[int] = field(default_factory=list)
    """For each of the first requests, after how many bytes of the reply the connection ends."""
    location: str = ""
    asked: list[str] = field(default_factory=list)
    """The path of each request, or its whole address where it came by a proxy."""
    url: str = ""


@contextmanager
def published(publisher: Publisher) -> Iterator[Publisher]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.asked.append(self.path)
            moved = publisher.location and self.path.endswith("/moved")
            self.send_response(302 if moved else 200)
            if moved:
                self.send_header("Location", publisher.location)
            else:
                self.send_header("Content-Length", str(len(publisher.content)))
            self.end_headers()
            cut = publisher.cut_at.pop(0) if publisher.cut_at else len(publisher.content)
            self.wfile.write(b"" if moved else publisher.content[:cut])

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        publisher.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield publisher
        finally:
            server.shutdown()


def origins(publisher: Publisher, path: str = "/dev.json"):
    return {"spinach-dev": (Remote(publisher.url + path, "spinach/dev.json", len(QUESTIONS), DIGEST),)}


def test_a_dataset_is_downloaded_checked_and_read(tmp_path):
    told: list[tuple[str, int, int]] = []
    with published(Publisher()) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher), progress=lambda *one: told.append(one))
        (again,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (file.path, file.size, file.sha256) == (tmp_path / "spinach" / "dev.json", len(QUESTIONS), DIGEST)
    assert (file.new, again.new, publisher.asked) == (True, False, ["/dev.json"])
    assert told[-1] == ("spinach/dev.json", len(QUESTIONS), len(QUESTIONS))
    assert len(load_dataset("spinach-dev", tmp_path)) == 4000


def test_what_was_cut_off_is_asked_for_again_a_few_times(tmp_path):
    with published(Publisher(cut_at=[98_304, 49_152])) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher))
        assert (file.sha256, len(publisher.asked)) == (DIGEST, 3)
        assert [path.name for path in file.path.parent.iterdir()] == ["dev.json"]
        publisher.cut_at = [1, 1]
        with pytest.raises(ServiceError, match="cannot be reached"):
            fetch("spinach-dev", tmp_path / "other", origins=origins(publisher), retries=1)


def test_another_file_than_the_known_one_is_refused_and_none_of_it_kept(tmp_path):
    with published(Publisher(content=QUESTIONS.replace(b"Who", b"Wha"))) as publisher:
        with pytest.raises(DataError, match="not the file that is known"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
        assert not (tmp_path / "spinach").exists()
        (tmp_path / "spinach").mkdir()
        (tmp_path / "spinach" / "dev.json").write_bytes(b"[]")
        with pytest.raises(DataError, match="move it away and fetch again"):
            fetch("spinach-dev", tmp_path, origins=origins(publisher))
    assert (tmp_path / "spinach" / "dev.json").read_bytes() == b"[]"
    with published(Publisher(content=QUESTIONS * 2)) as publisher, pytest.raises(BadResponse, match="sends more than"):
        fetch("spinach-dev", tmp_path / "other", origins=origins(publisher))


def test_a_redirect_is_followed_on_the_same_host_only(tmp_path):
    with published(Publisher(location="/dev.json")) as publisher:
        (file,) = fetch("spinach-dev", tmp_path, origins=origins(publisher, "/moved"))
    assert file.sha256 == DIGEST
    with published(Publisher()) as elsewhere, published(Publisher(location=f"{elsewhere.url}/dev.json")) as publisher:
        with pytest.raises(BadResponse, match="only the same host is followed"):
            fetch("spinach-dev", tmp_path / "other", origins=origins(publisher, "/moved"))
        assert elsewhere.asked == []


def test_the_environments_proxy_is_used(tmp_path, monkeypatch):
    with published(Publisher()) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.delenv(name.replace("HTTP", "NO").replace("http", "no"), raising=False)
        remote = Remote("http://data.example/dev.json", "spinach/dev.json", len(QUESTIONS), DIGEST)
        fetch("spinach-dev", tmp_path, origins={"spinach-dev": (remote,)})
    assert proxy.asked == ["http://data.example/dev.json"]


def test_what_is_not_known_is_refused_and_every_address_is_one_of_a_commit(tmp_path):
    with pytest.raises(UsageError, match="no dataset 'spinach-deb'; did you mean 'spinach-dev'"):
        fetch("spinach-deb", tmp_path)
    assert set(ORIGINS) <= set(NAMES)
    urls = [remote.url for remotes in ORIGINS.values() for remote in remotes]
    assert all(url.startswith("https://") and len(url.split("/")[5]) == 40 for url in urls)


def test_the_known_digests_are_those_of_the_published_files(shared_data):
    """Held against copies of the published files, unpacked."""
    held = 0
    for remote in (remote for remotes in ORIGINS.values() for remote in remotes):
        plain = shared_data / "benchmarks" / remote.path
        packed = plain.with_name(plain.name + ".gz")
        path = packed if packed.exists() else plain
        if remote.sha256 and path.exists():
            content = File.open(path).data
            assert (len(content), hashlib.sha256(content).hexdigest()) == (remote.size, remote.sha256)
            held += 1
    assert held >= 3
