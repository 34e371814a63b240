"""nginx with the configuration of deploy/, for servers on this machine."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

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
