"""Services of others that are started for tests and demonstrations, and end with them."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from tests.ending import started

USER = "postgres"
"""Who runs PostgreSQL where it is started by root, as whom it refuses to."""


class Missing(Exception):
    """A program that is not installed; the text says which package has it."""


def free_port() -> int:
    """A port of this machine on which nothing listens at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def _as_user() -> dict[str, Any]:
    """What has a program run as somebody who is not root."""
    owner = pwd.getpwnam(USER) if os.geteuid() == 0 else None
    given = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
    return {"cwd": "/", "check": True, "stdout": subprocess.DEVNULL, "timeout": 120, **given}


@contextmanager
def postgresql() -> Iterator[str]:
    """The URL of an empty PostgreSQL. Raises Missing."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        raise Missing("no PostgreSQL: install Debian's package postgresql")
    # A socket's path must be short, and the folder must be its user's.
    folder = Path(tempfile.mkdtemp(prefix="kbnav-pg-", dir="/tmp"))
    data, asked = folder / "data", _as_user()
    if "user" in asked:
        os.chown(folder, asked["user"], asked["group"])
    port = free_port()
    control = str(programs[-1] / "pg_ctl")
    subprocess.run(
        [programs[-1] / "initdb", "-D", data, "-U", "kbnav", "--auth=trust", "--no-sync", "-E", "UTF8"], **asked
    )
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    subprocess.run([control, "-D", data, "-w", "-l", folder / "log", "-o", options, "start"], **asked)
    try:
        yield f"postgresql://kbnav@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **asked)
        shutil.rmtree(folder)


@contextmanager
def stopped_postgresql(url: str) -> Iterator[None]:
    """The server of ``postgresql`` is stopped at once, and started again with the same options."""
    import psycopg

    with psycopg.connect(url) as connection:
        data = Path(connection.execute("SHOW data_directory").fetchone()[0])  # type: ignore[index]
    control = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1] / "pg_ctl"
    asked = _as_user()
    subprocess.run([control, "-D", data, "-m", "immediate", "stop"], **asked)
    try:
        yield
    finally:
        port = url.rpartition(":")[2].partition("/")[0]
        options = f"-p {port} -k {data.parent} -c listen_addresses=127.0.0.1 -c fsync=off"
        subprocess.run([control, "-D", data, "-w", "-l", data.parent / "log", "-o", options, "start"], **asked)


@contextmanager
def database_in(url: str, folder: Path) -> Iterator[str]:
    """The URL of another database of the server of ``postgresql``, whose tables are in an empty folder."""
    import psycopg

    if owner := _as_user().get("user"):
        os.chown(folder, owner, -1)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
        connection.execute("CREATE DATABASE small TABLESPACE small")
    yield f"{url.rpartition('/')[0]}/small"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE small WITH (FORCE)")
        connection.execute("DROP TABLESPACE small")


@contextmanager
def s3_server() -> Iterator[tuple[str, dict[str, str]]]:
    """The address of an empty bucket on moto's S3 server, and what must be in the environment of those who ask it."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        with requests.Session() as http:
            http.mount("http://", HTTPAdapter(max_retries=Retry(connect=14, backoff_factor=0.1, backoff_max=5)))
            http.put(f"{url}/kbnav", timeout=30).raise_for_status()
        given = {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1", "ENDPOINT": url}
        yield "s3://kbnav", {f"AWS_{name}": value for name, value in {**given, "ALLOW_HTTP": "true"}.items()}
