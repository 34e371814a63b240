"""Record all cassettes again: ``make cassettes``.

Serves the bundled mirror and, on the port next to it, the scripts of the tests' ``scripts`` folders as a model (the
request's model names the script), and runs the recorded tests in rewriting mode.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kbnav.knowledge.open import bundled_mirror
from kbnav.knowledge.serving import MirrorServer
from tests.models.stub import Canned, ModelStub, completion

HERE = Path(__file__).resolve().parent
MIRROR_PORT, MODEL_PORT = 7878, 7879


class ScriptedStub(ModelStub):
    """Takes the next reply from the script that the request's ``model`` names."""

    def __init__(self) -> None:
        super().__init__([], MODEL_PORT)
        scripts = HERE.glob("*/scripts/*.json")
        self._scripts = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in scripts}

    def reply(self, asked: dict[str, Any]) -> Canned:
        """The reply to a request."""
        name = asked["model"]
        said = self._scripts[name]["replies"][sum(request["model"] == name for request in self.requests) - 1]
        calls = [(call["name"], call["arguments"]) for call in said.get("tool_calls", [])]
        canned = completion(said.get("content"), calls)
        return Canned(canned.body, headers={"X-Replies": self._scripts[name]["note"]})


def main() -> int:
    """Exit code of pytest."""
    with tempfile.TemporaryDirectory() as home:
        folder = bundled_mirror(Path(home))
        with MirrorServer(folder, port=MIRROR_PORT), ScriptedStub():
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--record-mode=rewrite",
                "tests/agents/test_recorded_runs.py",
            ]
            return subprocess.run(command, check=False, cwd=HERE.parent).returncode


if __name__ == "__main__":
    sys.exit(main())
