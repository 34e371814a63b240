"""The main jobs of kbnav where it was installed alone, from a wheel and without extras: ``make bare-test``.

    …/python -P tests/bare/main_jobs.py

No test framework is there, and none is used: what fails ends the program.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path

KBNAV = str(Path(sys.executable).with_name("kbnav"))
PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
MARIE = "Which elements were discovered by Marie Curie?"
NOT_INSTALLED = ("mcp", "pandas", "psycopg", "pyarrow", "scipy", "tokenizers", "torch", "transformers")


def said(*arguments: str, code: int = 0) -> str:
    """What a command prints, both streams."""
    done = subprocess.run([KBNAV, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"kbnav {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def questions_are_answered() -> None:
    assert "polonium, radium" in said("ask", "--quiet", MARIE)
    assert "The Brown Eye" in said("retrieve", "--kb", "demo", "--system", "bm25", "an instrument called the brown eye")


def an_skb_is_built_and_asked() -> None:
    nodes = [
        {"id": "d1", "type": "drug", "name": "Zorvelin", "text": "A blue pill against the cold of sailors."},
        {"id": "d2", "type": "drug", "name": "Merutan", "text": "A salve for burns."},
        {"id": "s1", "type": "illness", "name": "sea cold", "text": "What sailors catch."},
    ]
    Path("nodes.jsonl").write_text("".join(json.dumps(node) + "\n" for node in nodes))
    Path("edges.tsv").write_text("source\trelation\ttarget\nd1\ttreats\ts1\n")
    said("skb", "build", "--nodes", "nodes.jsonl", "--edges", "edges.tsv", "--out", "my.skb", "--encoder", "none")
    assert "Zorvelin" in said("ask", "--quiet", "--kb", "my.skb", "Which drug treats sea cold?")
    assert "Merutan" in said("retrieve", "--kb", "my.skb", "--system", "bm25", "salve for burns")


def the_page_is_served() -> None:
    process = subprocess.Popen([KBNAV, "serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+(?=;)", process.stdout.readline())
        url = address[0].rstrip("/")
        with urllib.request.urlopen(url, timeout=30) as reply:
            assert b"<html" in reply.read().lower()
        asked = json.dumps({"model": "mini", "messages": [{"role": "user", "content": MARIE}]}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", asked, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert "radium" in json.load(reply)["choices"][0]["message"]["content"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def what_an_extra_is_missing_is_said_in_one_form() -> None:
    import kbnav

    Path("nodes.parquet").write_bytes(b"PAR1")
    gold = "SELECT ?x { ?x wdt:P61 wd:Q7186 }"
    Path("questions.jsonl").write_text(json.dumps({"id": "marie", "question": MARIE, "sparql": gold}) + "\n")
    asked = {"id": "cold", "question": "Which drug treats sea cold?", "nodes": ["d1"]}
    Path("train.jsonl").write_text(json.dumps(asked) + "\n")
    answer = kbnav.ask(MARIE)
    try:
        answer.to_dataframe()
    except kbnav.KbnavError as error:
        told = [str(error)]
    build = ("skb", "build", "--nodes", "nodes.jsonl", "--edges", "edges.tsv", "--out", "other.skb")
    parquet = ("skb", "build", "--nodes", "nodes.parquet", "--out", "other.skb")
    trained = ("train", "seq2seq", "--kb", "my.skb", "--dataset", "train.jsonl")
    told += [
        said("eval", "run", "--kb", "mini", "questions.jsonl", "--out", "run", code=2),
        said(*build, "--encoder", "minilm", code=2),
        said(*parquet, code=2),
        said(*trained, "--set", "base=gpt2", "--out", "my.planner", code=2),
    ]
    os.environ["KBNAV_DATABASE"] = "postgresql://127.0.0.1/none"
    told.append(said("serve", "--port", "0", code=2))
    del os.environ["KBNAV_DATABASE"]
    told.append(said("mcp", code=2))
    extras = ("pandas", "eval", "vectors", "tables", "train", "postgres", "mcp")
    for text, extra in zip(told, extras, strict=True):
        form = rf"needs [\w, ]+, which (is|are) not installed: pip install 'kbnav\[{extra}\]'"
        assert re.search(form, " ".join(text.split())), f"{extra}: {text}"


def the_page_on_python_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    Path("page.py").write_text("".join(blocks))
    done = subprocess.run([sys.executable, "-P", "page.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("polonium, radium\n")


def main() -> None:
    """Do every job in an empty folder; one that hangs ends the program."""
    signal.alarm(900)
    assert not [name for name in NOT_INSTALLED if find_spec(name)], "an extra's package is installed"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["KBNAV_HOME"] = str(Path(folder) / "home")
        for job in (
            questions_are_answered,
            an_skb_is_built_and_asked,
            the_page_is_served,
            what_an_extra_is_missing_is_said_in_one_form,
            the_page_on_python_runs,
        ):
            job()
            print(job.__name__.replace("_", " "), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main()
