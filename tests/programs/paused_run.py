"""A run of a program that asks a model which never answers: ``python -m tests.programs.paused_run HOME FOLDER``.

It is for another process to kill. What the model was asked it writes to ``FOLDER/asked``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.messages import AIMessage

from kbnav.encoders import Vectors
from kbnav.knowledge.open import open_kb
from kbnav.models.calls import ModelCalls
from kbnav.models.scripted import ScriptedModel
from kbnav.programs.api import Api
from kbnav.programs.program import Program
from kbnav.programs.sandbox.monty import MontySandbox
from kbnav.settings.model import Settings

CANDIDATES = ("place:averhythe", "place:ropewalk-lane")
PROGRAM = Program.read(
    """
import random

def score(query, candidates):
    debug("before", len(embed(["x"])))
    first = random.random()
    judged = score_texts(query, ["a", "b"])
    debug("after", first == random.Random(0).random() or first, judged)
    return {node: judged[place] for place, node in enumerate(candidates)}
"""
)


class Silent(ScriptedModel):
    """Is asked, and does not answer."""

    folder: str

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        (Path(self.folder) / "asked").write_text("yes")
        time.sleep(60)


class Counting:
    """An encoder that counts how often it is asked."""

    name = "counting"
    asked = 0

    def encode(self, texts: Sequence[str]) -> Vectors:
        self.asked += 1
        return np.ones((len(texts), 1), np.float32)


def run(home: Path, folder: Path, model: ScriptedModel, encoder: Counting | None = None):
    with open_kb(Settings(kb="demo", home=home)) as kb, MontySandbox(paused=folder) as sandbox:
        api = Api(kb, encoder or Counting(), ModelCalls(model, "scripted", jobs=1))
        return sandbox.run(PROGRAM, "q", CANDIDATES, api)


def answering() -> ScriptedModel:
    return ScriptedModel(replies=[AIMessage("0.3"), AIMessage("0.9")])


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]), Silent(replies=[], folder=sys.argv[2]))
