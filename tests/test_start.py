"""What is not imported: a person should not wait for what the answer does not need."""

import os
import subprocess
import sys

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


def test_an_answer_that_asks_no_model_imports_neither_an_http_client_for_models_nor_numpy(mini_home):
    answer, _, modules = said(ASK, KBNAV_HOME=str(mini_home)).rstrip().rpartition("\n")
    assert "polonium, radium" in answer
    assert not {"openai", "langchain_openai", "numpy"} & {*modules.split()}


def test_importing_kbnav_imports_nothing_that_takes_time():
    code = """
import sys, kbnav
print(*sys.modules)
print(sorted(dir(kbnav)) == sorted([*kbnav.__all__, "__version__"]))
print([name for name in kbnav.__all__ if not callable(getattr(kbnav, name))])
"""
    modules, *rest = said(code).splitlines()
    assert not {"langgraph", "langchain_core", "pydantic", "numpy", "requests", "asyncio"} & {*modules.split()}
    assert rest == ["True", "[]"]
