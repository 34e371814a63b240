"""What a client sends over standard input that is no message: it does no harm, and the next is answered."""

import json
import os
import subprocess
import sys

ODD = [
    ("{", -32700),
    ("hello", -32700),
    ("", None),
    ("[" * 5000, -32700),
    ('{"a": "' + "x" * 100_000, -32700),
    ("[]", -32600),
    ("null", -32600),
    ('{"jsonrpc": "2.0"}', -32600),
    ('{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600),
    ('{"jsonrpc": "2.0", "id": {}, "method": 5}', -32600),
    ("\ud800".encode("utf-8", "surrogatepass"), -32700),
    ("\0\x1b[2J", -32700),
]
"""Lines, with the codes of JSON-RPC that they get over HTTP."""


def test_after_each_line_that_is_no_message_the_next_is_answered(mini_home, mini_kb):
    ping = {"jsonrpc": "2.0", "id": 99, "method": "ping"}
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "kbnav", "mcp", "--kb", "mini"],
        env={**os.environ, "KBNAV_HOME": str(mini_home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin
    assert process.stdout
    with process:

        def send(line: str | bytes) -> None:
            process.stdin.write((line if isinstance(line, bytes) else line.encode()) + b"\n")
            process.stdin.flush()

        def heard() -> dict:
            return json.loads(process.stdout.readline())

        send(json.dumps(hello))
        assert heard()["id"] == 1
        send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        for line, _ in ODD:
            send(line)
            send(json.dumps(ping))
            while (told := heard()).get("id") != 99:
                assert "result" not in told, (line, told)
            assert told == {"jsonrpc": "2.0", "id": 99, "result": {}}
        process.stdin.close()
        assert process.wait(30) == 0
