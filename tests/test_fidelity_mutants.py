"""Each row of benchmarks/results/fidelity.md in data/fidelity_mutants.tsv has a test that fails when it is changed.

Rows whose tests need torch are tried by ``make train-test``, in its environment, and the others by ``make slow-test``.
"""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_fidelity import FILE, ROWS

pytestmark = pytest.mark.slow
LINES = (ROOT / "tests" / "data" / "fidelity_mutants.tsv").read_text(encoding="utf-8").splitlines()[1:]
TORCH = find_spec("torch") is not None


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, in which files may be changed."""
    folder = tmp_path_factory.mktemp("copy")
    for path in ROOT.iterdir():
        if path.name in ("src", "agents", "tools", "prompts", "tests"):
            shutil.copytree(path, folder / path.name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        elif path.name not in (".git", ".venv"):
            (folder / path.name).symlink_to(path)
    return folder


def named_by(row: str) -> list[str]:
    """The tests that the row named by its first words names; a test stands for itself."""
    if row.startswith("tests/"):
        return [row]
    cells = [cells[4] for cells in ROWS if cells[0].startswith(row)]
    assert cells, f"benchmarks/results/fidelity.md has no row {row}"
    return [f"{file}::{test}".removesuffix("::") for cell in cells for file, test in FILE.findall(cell)]


MUTANTS = [
    mutant
    for mutant in ([cell.replace("\\n", "\n") for cell in line.split("\t")] for line in LINES)
    if any(test.startswith("tests/training/") for test in named_by(mutant[0])) == TORCH
]


def run(copy: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    """Run tests of the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider", *dict.fromkeys(tests)]
    command += ["-o", "filterwarnings=default"] if TORCH else []
    data = os.environ.get("KBNAV_TEST_DATA", str(ROOT.parent / "shared"))
    own = {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "KBNAV_TEST_DATA": data}
    return subprocess.run(command, cwd=copy, env={**os.environ, **own}, capture_output=True, text=True, check=False)


def test_without_a_change_all_tests_pass(copy):
    found = run(copy, [test for row, *_ in MUTANTS for test in named_by(row)])
    assert found.returncode == 0, found.stdout[-3000:]


@pytest.mark.parametrize(("row", "path", "old", "new"), MUTANTS)
def test_a_changed_element_fails_the_test_of_its_row(row, path, old, new, copy):
    source = (copy / path).read_text(encoding="utf-8")
    assert old in source, f"{path} no longer has {old!r}"
    try:
        (copy / path).write_text(source.replace(old, new), encoding="utf-8")
        found = run(copy, named_by(row))
    finally:
        (copy / path).write_text(source, encoding="utf-8")
    assert (found.returncode, "failed" in found.stdout) == (1, True), found.stdout[-2000:] + found.stderr[-500:]
