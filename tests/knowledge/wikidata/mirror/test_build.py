import bz2
import gzip
import json
import shutil
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, Store

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.serving import MirrorServer
from kbnav.knowledge.wikidata.mirror.build import _put_in_place, build_mirror
from kbnav.knowledge.wikidata.mirror.links import Links
from kbnav.knowledge.wikidata.mirror.mirror import FORMAT, NAMES, Documents, Mirror, open_store, read_info, run_query
from kbnav.knowledge.wikidata.mirror.vocabulary import OF_WIKIDATA
from kbnav.runs.journal import exchanged

LINE = '<http://www.wikidata.org/entity/Q1> <http://www.w3.org/2000/01/rdf-schema#label> "{}"@en .\n'


def lines(count: int) -> str:
    return "".join(LINE.format(f"universe {number}") for number in range(count))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    source = tmp_path / "old.nt"
    source.write_text(lines(3))
    build_mirror([source], tmp_path / "mirror")
    return tmp_path / "mirror"


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_nt_ttl_and_gzipped_files_are_read_together(tmp_path):
    (tmp_path / "a.nt").write_text(lines(2))
    (tmp_path / "b.ttl.bz2").write_bytes(bz2.compress(b"@prefix : <http://www.wikidata.org/entity/> . :Q2 :P1 :Q3 ."))
    told: list[str] = []
    info = build_mirror([tmp_path / "a.nt", tmp_path / "b.ttl.bz2"], tmp_path / "out", progress=told.append)
    assert (info.triples, info.entities, info.names) == (3, 1, 2)
    assert [(source.name, source.triples) for source in info.sources] == [("a.nt", 2), ("b.ttl.bz2", 1)]
    assert read_info(tmp_path / "out") == info
    assert any("a.nt: 2 triples" in line for line in told)
    assert leftovers(tmp_path) == []


def test_a_faulty_line_is_named_and_the_old_mirror_stays(tmp_path, old):
    before = read_info(old)
    bad = tmp_path / "bad.nt.gz"
    bad.write_bytes(gzip.compress((lines(1200) + "<a> broken\n" + lines(5)).encode()))
    with pytest.raises(DataError, match=r"bad\.nt\.gz:1201: "):
        build_mirror([bad], old)
    assert read_info(old) == before
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_a_truncated_file_is_named_with_the_line_that_it_ends_in(tmp_path, ending, pack):
    whole = pack(lines(100_000).encode())
    cut = tmp_path / f"cut.nt{ending}"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.nt\.\w+:(\d+): the compressed data is damaged") as caught:
        build_mirror([cut], tmp_path / "out")
    line = int(str(caught.value).split(":")[1])
    assert 30_000 < line < 70_000


def test_wrong_use_is_said_before_anything_is_built(tmp_path):
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "a.nt").write_text("")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for sources, out, told in [
        ([], "out", "nothing to build"),
        (["a.csv"], "out", "unknown kind of file"),
        (["b.nt"], "out", "no such file"),
        (["a.nt"], "mine", "is not a mirror"),
        (["a.nt"], "a.csv", "is a file"),
    ]:
        with pytest.raises(UsageError, match=told):
            build_mirror([tmp_path / source for source in sources], tmp_path / out)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_a_full_disk_leaves_the_old_mirror_as_it_was(tmp_path, old):
    before = read_info(old)
    (tmp_path / "big.nt").write_text(lines(60_000))
    # No file may grow past a limit: what a full disk is to those who write.
    for limit in (4_096, 200_000, 2_000_000):
        script = (
            "import resource, sys; from pathlib import Path\n"
            "from kbnav.errors import UsageError\n"
            "from kbnav.knowledge.wikidata.mirror.build import _put_in_place, build_mirror\n"
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
            "try: build_mirror([Path(sys.argv[1])], Path(sys.argv[2]))\n"
            "except UsageError as error: print(error); sys.exit(error.exit_code)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", script, str(tmp_path / "big.nt"), str(old)], capture_output=True, text=True
        )
        assert done.returncode == 2, done.stderr
        assert "the mirror that was there is unchanged" in done.stdout
        assert read_info(old) == before
        assert len(Store.read_only(str(old / "triples"))) == 3
        assert leftovers(tmp_path) == []


def test_a_damaged_mirror_is_told_from_one_that_is_absent(tmp_path, old):
    with pytest.raises(UsageError, match="build one") as absent:
        read_info(tmp_path / "nowhere")
    assert not isinstance(absent.value, DataError)
    meta = old / "meta.json"
    text = meta.read_text()
    meta.write_text(text.replace(f'"format": {FORMAT}', '"format": 99'))
    with pytest.raises(DataError, match="format 99"):
        MirrorServer(old)
    meta.write_text(text[:50])
    with pytest.raises(DataError, match=r"meta\.json: Invalid JSON"):
        MirrorServer(old)
    meta.write_text(text)
    (old / "names.sqlite").write_bytes(b"not a database")
    with pytest.raises(DataError, match="index"):
        MirrorServer(old)
    (old / "names.sqlite").unlink()
    with pytest.raises(DataError, match="missing"):
        MirrorServer(old)


def test_a_page_of_the_export_becomes_a_document(tmp_path, shared_data):
    build_mirror([shared_data / "rdf-docs" / "official" / "Q42.ttl.gz"], tmp_path / "out")
    document = Documents(open_store(tmp_path / "out")).document("Q42")
    assert sum(len(group) for group in document["claims"].values()) == 332


def test_while_a_mirror_is_replaced_there_is_one_at_any_moment(old, tmp_path):
    made, aside, missed, over = tmp_path / "made", tmp_path / "aside", list[str](), threading.Event()
    shutil.copytree(old, made)

    def look() -> None:
        while not over.is_set():
            if not (old / "meta.json").exists():
                missed.append("gone")

    if not exchanged(made, old):
        pytest.skip("two folders cannot be exchanged here")
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        for _ in range(1_000):
            _put_in_place(made, old, aside)
            if aside.exists():
                aside.rename(made)
        over.set()
        looking.result()
    assert missed == []
    assert read_info(made) == read_info(old)


PREFIXES = "PREFIX wd: <http://www.wikidata.org/entity/> PREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"
CLAIMS = """
wd:Q1 wdt:P31 wd:Q10 , wd:Q11 . wd:Q2 wdt:P31 wd:Q11 . wd:P7 wdt:P31 wd:Q12 . wd:L3-F1 wdt:P31 wd:Q10 .
wd:Q10 wdt:P279 wd:Q12 , wd:Q13 . wd:Q11 wdt:P279 wd:Q12 . wd:Q12 wdt:P279 wd:Q14 . wd:Q13 wdt:P279 wd:Q14 .
wd:Q14 wdt:P279 wd:Q12 . wd:Q1 wdt:P50 wd:Q2 , "Q2" , _:x . _:y wdt:P17 wd:Q2 . wd:Q1 wdt:P17 wd:Q2 .
"""


@pytest.fixture(scope="module")
def plain() -> Store:
    store = Store()
    store.load(f"{PREFIXES}{CLAIMS}".encode(), RdfFormat.TURTLE)
    return store


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    (folder / "claims.ttl").write_text(f"{PREFIXES}{CLAIMS}")
    build_mirror([folder / "claims.ttl"], folder / "mirror")
    return folder / "mirror"


@pytest.mark.parametrize(
    ("query", "listed"),
    [
        ("SELECT ?x { ?x wdt:P31 wd:Q10 }", True),
        ("SELECT ?x { ?x wdt:P31/wdt:P279* wd:Q12 }", True),  # Q1 twice, Q12 and Q14 in a circle
        ("SELECT DISTINCT ?x WHERE { ?x wdt:P31/wdt:P279* wd:Q14 . }", True),
        ("SELECT * { ?x wdt:P31/wdt:P279+ wd:Q12 }", True),
        ("SELECT ?x { ?x wdt:P279+ wd:Q14 }", True),
        ("SELECT ?x { ?x wdt:P279* wd:Q99 }", False),  # the engine knows whether the store has it at all
        ("SELECT ?x { ?x wdt:P279* wd:Q12 }", True),
        ("SELECT ?x { ?x wdt:P279*/wdt:P279* wd:Q14 }", True),
        ("SELECT ?x { ?x wdt:P50 wd:Q2 }", True),
        ("SELECT ?x { ?x <http://www.wikidata.org/prop/direct/P31> wd:Q99 }", True),
        ("SELECT ?x { ?x wdt:P17 wd:Q2 }", False),  # a blank node has it too
        ("SELECT ?x { ?x wdt:P31/^wdt:P31 wd:Q2 }", False),
        ("SELECT ?x { ?x (wdt:P31/wdt:P279)* wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31|wdt:P279 wd:Q12 }", False),
        ("SELECT ?x { ?x a wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31 ?y }", False),
        ('SELECT ?x { ?x wdt:P50 "Q2" }', False),
        ("SELECT ?x { wd:Q1 wdt:P31 ?x }", False),
        ("SELECT ?y { ?x wdt:P31 wd:Q10 }", False),
        ("SELECT (COUNT(*) AS ?n) { ?x wdt:P31/wdt:P279* wd:Q12 }", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 } ORDER BY ?x LIMIT 1", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 . ?x wdt:P31 wd:Q10 }", False),
        ("SELECT ?x { ?x wdt:P31 wd:Q11 FILTER(?x != wd:Q1) }", False),
    ],
)
def test_the_rows_are_those_of_the_engine(folder, plain, query, listed):
    mirror = Mirror(folder)
    try:
        got = run_query(mirror.pool, query, {"wd": OF_WIKIDATA.wd, "wdt": OF_WIKIDATA.wdt}).body
    finally:
        mirror.close()
    found = plain.query(PREFIXES + query)
    names = [variable.value for variable in found.variables]
    expected = Counter(tuple(row[name] and row[name].value for name in names) for row in found)
    document = json.loads(got)
    rows = document["results"]["bindings"]
    assert document["head"]["vars"] == names
    if "P17" not in query:  # blank nodes have names of their own
        assert Counter(tuple(row[name]["value"] if name in row else None for name in names) for row in rows) == expected
    assert len(rows) == expected.total()
    answer = Links(folder / NAMES, OF_WIKIDATA).listed(PREFIXES + query)
    assert (answer is not None) == listed
