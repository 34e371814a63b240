"""SPARQL engines as processes on free ports, each with its data in a temporary folder."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from tests.ending import started, until
from tests.services import free_port

CONFIGURATION = """
[Database]
DatabaseFile=v.db
ErrorLogFile=v.log
LockFile=v.lck
TransactionFile=v.trx
xa_persistent_file=v.pxa
FileExtend=200
MaxCheckpointRemap=2000
[TempDatabase]
DatabaseFile=t.db
TransactionFile=t.trx
MaxCheckpointRemap=2000
[Parameters]
ServerPort=127.0.0.1:{sql}
DisableUnixSocket=1
ServerThreads=10
CheckpointInterval=0
NumberOfBuffers={buffers}
MaxDirtyBuffers=1200
DirsAllowed={folder}
MaxClientConnections=5
[HTTPServer]
ServerPort=127.0.0.1:{http}
ServerThreads=5
ServerRoot={folder}
[SPARQL]
ResultSetMaxRows={rows}
MaxQueryExecutionTime={seconds}
"""


def answers(url: str) -> bool:
    try:
        return requests.get(url, params={"query": "ASK {}"}, timeout=5).status_code == 200
    except requests.RequestException:
        return False


def wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    until(lambda: process.poll() is not None or answers(url))
    assert process.poll() is None, f"{process.args} ended"


@contextmanager
def virtuoso(folder: Path, turtle: str, *, rows: int = 50, seconds: int = 3, buffers: int = 2000) -> Iterator[str]:
    """Virtuoso with some Turtle in one graph, and a text index over it; gives the address for queries.

    It gives at most so many ``rows`` and ``seconds``, and keeps so many ``buffers`` of 8 KB.
    """
    command, client = shutil.which("virtuoso-t"), shutil.which("isql-vt")
    if command is None or client is None:
        pytest.skip("no virtuoso-t and isql-vt (Debian's virtuoso-opensource; see .ci/packages)")
    sql, http = free_port(), free_port()
    given = {"sql": sql, "http": http, "folder": folder, "rows": rows, "seconds": seconds, "buffers": buffers}
    (folder / "virtuoso.ini").write_text(CONFIGURATION.format(**given))
    (folder / "data.ttl").write_text(turtle, encoding="utf-8")
    serve = [command, "+foreground", "+configfile", "virtuoso.ini"]
    with started(serve, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{http}/sparql"
        wait_for(process, url)
        load = (
            "log_enable(2);"  # each row by itself, and none to a log: for much data many times quicker
            "DB.DBA.RDF_OBJ_FT_RULE_ADD(null, null, 'All');"
            f"DB.DBA.TTLP(file_to_string_output('{folder}/data.ttl'), '', 'urn:data');"
            "DB.DBA.VT_INC_INDEX_DB_DBA_RDF_OBJ();"
        )
        subprocess.run([client, f"127.0.0.1:{sql}", "dba", "dba", f"exec={load}"], check=True, capture_output=True)
        yield url


@contextmanager
def oxigraph(folder: Path, turtle: str) -> Iterator[str]:
    """Oxigraph's own server with some Turtle; gives the address for queries."""
    command = shutil.which("oxigraph", path=f"{Path(sys.executable).parent}:{sys.path[0]}") or shutil.which("oxigraph")
    if command is None:
        pytest.skip("no oxigraph command (pip install oxigraph)")
    (folder / "data.ttl").write_text(turtle, encoding="utf-8")
    store = folder / "store"
    load = [command, "load", "--location", str(store), "--file", str(folder / "data.ttl")]
    subprocess.run(load, check=True, capture_output=True)
    port = free_port()
    serve = [command, "serve-read-only", "--location", str(store), "--bind", f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}/query"
    with started(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for(process, url)
        yield url
