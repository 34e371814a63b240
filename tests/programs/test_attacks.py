"""No hostile program gets hold of anything, goes on after its limits, or keeps the next one from running."""

import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from kbnav.knowledge.base import KnowledgeBase
from kbnav.programs.api import Api, ApiLimits
from kbnav.programs.program import BadProgram, Program
from kbnav.programs.sandbox import Sandbox, SandboxLimits
from tests.programs.attacks import ATTACKS, CANARY, Attack

LIMITS = SandboxLimits(seconds=0.2, memory=64 << 20, output=100_000)
HARMLESS = ("[]", "{}", "<")
"""How that begins which a program may have: nothing, and the names of the interpreter's own objects."""
HANGS = 20.0
"""Seconds after which something hangs, on a machine that does much else."""


@pytest.fixture(scope="module")
def hostile() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def limited(demo_kb: KnowledgeBase) -> Api:
    return Api(demo_kb, limits=ApiLimits(calls=100, debug_characters=100_000))


@pytest.fixture(scope="module")
def canaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A file and a port with the canary; the environment has it too."""
    file = tmp_path_factory.mktemp("secrets") / "key"
    file.write_text(CANARY)
    os.environ["KBNAV_TEST_CANARY"] = CANARY
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_give, args=(server,), daemon=True).start()
        yield str(file), str(server.getsockname()[1])
    del os.environ["KBNAV_TEST_CANARY"]


def _give(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.sendall(CANARY.encode())


@pytest.mark.slow
@pytest.mark.parametrize("group", ATTACKS)
def test_no_hostile_program_escapes_or_hangs(group, hostile, limited, canaries):
    """Each ends as it must, gets hold of nothing, and leaves a sandbox that works."""
    file, port = canaries
    wrong = []
    for attack in ATTACKS[group]:
        began = time.perf_counter()
        try:
            program = Program.read(attack.source)
        except BadProgram:
            assert attack.ends is not None
            assert "program" in attack.ends, attack.name
            continue
        outcome = hostile.run(program, file, [port, "place:averhythe"], limited)
        kind = outcome.error.kind if outcome.error else ""
        if attack.ends is not None and kind not in attack.ends:
            wrong.append(f"{attack.name}: ended as {kind!r}: {outcome.error}")
        if got := _got(outcome):
            wrong.append(f"{attack.name}: got hold of {got}")
        if time.perf_counter() - began > HANGS:
            wrong.append(f"{attack.name}: went on for {time.perf_counter() - began:.0f} s")
    assert _an_honest_program_runs(hostile, limited)
    assert not wrong, "\n".join(wrong)


def _an_honest_program_runs(sandbox, api) -> bool:
    """Tried a few times: the limit is short, and the machine may do much else."""
    program = Program.read(Attack("honest", "debug(1)").source)
    return any(sandbox.run(program, "q", ["a", "b"], api).ok for _ in range(5))


def _got(outcome) -> str:
    """What a program told of what it may not have."""
    told = f"{outcome.debug}\n{outcome.error}\n{outcome.scores}"
    found = [mark for mark in (CANARY, "root:x:", "kbnav.settings.model", "Settings(") if mark in told]
    told = [line for line in outcome.debug.splitlines() if line.startswith("GOT ")]
    found += [line[:200] for line in told if not line[4:].startswith(HARMLESS)]
    return ", ".join(found)
