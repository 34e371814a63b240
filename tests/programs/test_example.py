"""The frozen programs in ``examples/``, which a reader wrote by hand from the prompts alone."""

from __future__ import annotations

import re
from pathlib import Path

from kbnav.knowledge.base import KnowledgeBase
from kbnav.programs.retriever import read_frozen
from kbnav.programs.sandbox import open_sandbox
from tests.programs.conftest import Api

FOLDER = Path(__file__).parents[2] / "examples" / "hetionet-genes"


def test_the_example_is_whole_says_who_wrote_it_and_passes_the_check(demo_kb: KnowledgeBase):
    frozen = read_frozen(FOLDER)
    written, none = frozen.groups
    assert written.program is not None
    assert none.program is None
    assert written.program.source.startswith("# Written by hand")
    assert written.record.scores["mrr"] > 4 * written.record.first["mrr"]
    with open_sandbox("monty") as sandbox:
        assert list(sandbox.check(written.program, Api(demo_kb))) == []


def test_the_example_holds_no_data_of_the_knowledge_base_and_no_question():
    text = "".join(path.read_text() for path in FOLDER.rglob("*.*"))
    assert not re.search(r"[A-Z][A-Za-z ]+::[A-Z0-9]", text)  # ids of nodes, as Gene::5867
    assert "?" not in (FOLDER / "programs.json").read_text()
