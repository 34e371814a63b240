"""Folders that killed builds of mirrors left behind, and a mirror that one of them had taken away."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kbnav.knowledge.wikidata.mirror.build import MADE, REPLACED, build_mirror
from kbnav.knowledge.wikidata.mirror.store import read_info
from kbnav.knowledge.work_folder import work_folder

RDF = """@prefix wd: <http://www.wikidata.org/entity/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
wd:Q1 rdfs:label "{}"@en .
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "small.ttl"
    path.write_text(RDF.format("universe"))
    return path


def killed_while_building(source: Path, out: Path) -> None:
    """A build in a process of its own that is killed while it says how far it is."""
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from kbnav.knowledge.wikidata.mirror.build import build_mirror;"
        "end = lambda _: os.kill(os.getpid(), signal.SIGKILL);"
        "build_mirror([Path(sys.argv[1])], Path(sys.argv[2]), progress=end)"
    )
    done = subprocess.run([sys.executable, "-c", program, source, out], check=False)
    assert done.returncode == -signal.SIGKILL


def test_the_next_build_deletes_what_killed_ones_left(source, tmp_path):
    out = tmp_path / "mirrors" / "small"
    for _ in range(3):
        killed_while_building(source, out)
    assert len(list(out.parent.glob(".*.unfinished"))) == 1  # the last one
    other = out.parent / ".other.x.unfinished"
    other.mkdir()
    build_mirror([source], out)
    assert [path.name for path in out.parent.iterdir() if path != out] == [other.name]
    assert read_info(out).triples == 1


def test_a_build_that_is_under_way_is_left_alone(source, tmp_path):
    out = tmp_path / "small"
    with work_folder(tmp_path, "small") as work:
        build_mirror([source], out)
        assert work.is_dir()
    assert not work.exists()


def test_a_mirror_taken_away_by_a_build_that_was_killed_is_put_back(source, tmp_path):
    out = tmp_path / "small"
    build_mirror([source], out)
    left = tmp_path / ".small.abc.unfinished"
    left.mkdir()
    out.rename(left / REPLACED)
    (left / MADE).mkdir()
    bad = tmp_path / "bad.ttl"
    bad.write_text("this is no Turtle")
    with pytest.raises(Exception, match="bad"):
        build_mirror([bad], out)
    assert read_info(out).triples == 1
    assert not left.exists()
