"""nginx with the configuration of deploy/, for servers on this machine; and readers behind it, who come again."""

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.apps.web.parts import Visit
from tests.conftest import ROOT
from tests.ending import started, until
from tests.services import free_port


def configured(folder: Path, servers: Sequence[str], port: int) -> Path:
    """The configuration with these servers and this port, and all that nginx writes in a folder."""
    text = (ROOT / "deploy" / "nginx.conf").read_text()
    given = iter(servers)
    text = re.sub(r"server kbnav-\d:8080", lambda _: f"server {next(given)}", text)
    text = text.replace("listen 80;", f"listen 127.0.0.1:{port};")
    paths = "".join(
        f"    {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = text.replace("http {\n", f"http {{\n    access_log off;\n{paths}")
    file = folder / "nginx.conf"
    file.write_text(f"daemon off;\npid {folder}/pid;\nerror_log {folder}/error.log;\n{text}")
    return file


@contextmanager
def balanced(folder: Path, urls: Sequence[str]) -> Iterator[str]:
    """The address of a balancer before servers; it skips where there is no nginx."""
    nginx = shutil.which("nginx")
    if not nginx:
        pytest.skip("no nginx: install Debian's package nginx-light")
    port = free_port()
    file = configured(folder, [url.removeprefix("http://") for url in urls], port)
    with started([nginx, "-p", folder, "-c", file], stderr=subprocess.DEVNULL) as process:
        until(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}"
        process.terminate()  # its workers end with it
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def followed(visit: Visit, run: str, tries: int = 400) -> list[dict[str, Any]]:
    """The events of a run as a browser hears them: it comes again, with the last number, where it was hung up on."""
    heard: list[dict[str, Any]] = []
    for _ in range(tries):
        try:
            for event in visit.events(run, heard[-1]["id"] if heard else 0):
                if event["kind"] not in ("draft", "waiting"):  # which have no number
                    heard.append(event)
            if heard and heard[-1]["kind"] == "end":
                return heard
        except (requests.RequestException, AssertionError):
            pass
        time.sleep(0.1)
    raise AssertionError(f"it never ended: {[event['kind'] for event in heard]}")


def put(visit: Visit, question: str, tries: int = 100) -> dict[str, Any]:
    """A question put in line; whoever was refused for want of a server asks again."""
    for _ in range(tries):
        try:
            return visit.ask(visit.session(), question)
        except (requests.RequestException, AssertionError, KeyError, ValueError):
            time.sleep(0.1)
    raise AssertionError("no server took the question")
