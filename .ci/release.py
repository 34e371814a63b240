"""Cut a release in the project's files (``make cut``), and build one from a tag (``make release``)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNRELEASED = "## [Unreleased]\n"
QUESTION = "Which elements were discovered by Marie Curie?"
ANSWER = "polonium, radium"


def cut(root: Path, version: str, day: str) -> None:
    """Move what is unreleased into the version's own section, and set the version wherever it stands.

    Raises ValueError where nothing is unreleased or the section is there already.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ValueError(f"{version!r} is no version of the form 1.2.3")
    path = root / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8")
    if f"## [{version}]" in text:
        raise ValueError(f"CHANGELOG.md has a section {version} already")
    if not notes(text, "Unreleased"):
        raise ValueError("CHANGELOG.md has nothing under [Unreleased]")
    path.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {day}\n", 1), encoding="utf-8")
    for name, pattern in {
        "pyproject.toml": r'(?m)\A(.*?^version = ")[^"]+',
        "src/kbnav/__init__.py": r'(?m)\A(.*?^__version__ = ")[^"]+',
        "CITATION.cff": r"(?m)\A(.*?^version: )\S+",
    }.items():
        given = (root / name).read_text(encoding="utf-8")
        changed, count = re.subn(pattern, rf"\g<1>{version}", given, count=1, flags=re.DOTALL)
        if count != 1:
            raise ValueError(f"{name} names no version")
        (root / name).write_text(changed, encoding="utf-8")


def notes(changelog: str, section: str) -> str:
    """The text of one section of the changelog; empty where there is none."""
    found = re.search(rf"^## \[{re.escape(section)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""


def build(tag: str, out: Path) -> None:
    """Build, check and describe the release of a tag, in ``out``. Raises ValueError for a tag that does not fit."""
    version = tag.removeprefix("v")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        _run("git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(source), tag)
        try:
            written = notes((source / "CHANGELOG.md").read_text(encoding="utf-8"), version)
            project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
            if project != version or not written:
                raise ValueError(f"{tag}: the project's version is {project}, the changelog's section {bool(written)}")
            shutil.rmtree(out, ignore_errors=True)
            _run(sys.executable, "-m", "build", "--quiet", "--outdir", str(out), str(source))
        finally:
            _run("git", "-C", str(ROOT), "worktree", "remove", "--force", str(source))
        for package in sorted(out.iterdir()):
            check(package, Path(folder) / package.name, version)
    (out / "NOTES.md").write_text(f"{written}\n", encoding="utf-8")


def check(package: Path, environment: Path, version: str) -> None:
    """Install a built package into an empty environment, and ask it. Raises ValueError for a bad answer."""
    _run(sys.executable, "-m", "venv", str(environment))
    python = environment / "bin" / "python"
    _run(str(python), "-m", "pip", "install", "--quiet", str(package))
    told = _run(str(python), "-c", "import kbnav; print(kbnav.__version__)").strip()
    answer = _run(str(environment / "bin" / "kbnav"), "ask", "--quiet", QUESTION, cwd=environment, home=environment)
    if told != version or ANSWER not in answer:
        raise ValueError(f"{package.name}: version {told}, answer {answer!r}")
    print(f"{package.name}: installed into an empty environment; asked, it answered {ANSWER!r}")


def _run(*command: str, cwd: Path = ROOT, home: Path | None = None) -> str:
    environment = {**os.environ, **({"KBNAV_HOME": str(home / "home")} if home else {})}
    return subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def _tag() -> str:
    """The one tag of what is checked out."""
    return _run("git", "describe", "--tags", "--exact-match", "--match", "v*").strip()


if __name__ == "__main__":
    try:
        if sys.argv[1] == "cut":
            cut(ROOT, sys.argv[2], date.today().isoformat())
        else:
            build(sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] else _tag(), ROOT / "dist")
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"release: {error}")
