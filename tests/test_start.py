"""What is not imported: a person should not wait for what the answer does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ASK = """
import sys
from kbnav.apps.cli import main
sys.argv = ["kbnav", "ask", "--quiet", "Which elements were discovered by Marie Curie?"]
try:
    main()
finally:
    print(*sys.modules)
"""


def said(code: str, **environment: str) -> str:
    told = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=told).stdout


def test_an_answer_that_asks_no_model_imports_neither_langgraph_nor_langchain(mini_home: Path):
    answer, _, modules = said(ASK, KBNAV_HOME=str(mini_home)).rstrip().rpartition("\n")
    assert "polonium, radium" in answer
    assert not {"langgraph", "langchain_core", "langsmith", "openai", "httpx"} & {*modules.split()}
