"""Each row of docs/fidelity.md that is listed here has a test that fails when its element is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.test_fidelity import FILE, ROWS

pytestmark = pytest.mark.slow
OPTIONS = "agents/common/options.py"
SETTINGS = "src/kbnav/settings/model.py"
TABLES = "src/kbnav/evaluation/metrics/tables.py"
MADE = "src/kbnav/evaluation/synthesis/pipeline.py"
KAR = "src/kbnav/retrieval/kar.py"
EXPANSION = "src/kbnav/retrieval/expansion.py"
STEPS = "src/kbnav/programs/steps.py"
STATISTICS = "src/kbnav/evaluation/dataset_stats.py"
RANKING = "src/kbnav/evaluation/metrics/ranking.py"
WRITER = "src/kbnav/programs/writer.py"
MUTANTS = [
    # SPINACH
    ("one action a step", "agents/spinach.py", '"escalate", "parallel", ', '"escalate", '),
    (
        "five actions",
        "agents/spinach.py",
        "get_entry, get_property_examples, execute_query",
        "get_entry, execute_query",
    ),
    ("what pruning sees", "tools/context.py", "_EARLIER = 3", "_EARLIER = 1"),
    ("entries pruned by a few-shot prompt", "tools/prune.py", "_WHOLE = 60_000", "_WHOLE = 60"),
    (
        "stop: the last executed query is the answer",
        "agents/spinach.py",
        'last_executed=self.options.preset == "paper" or ',
        "last_executed=",
    ),
    ("large results: the first and last 5 rows", "tools/show.py", "<= shown.whole_rows:", "< shown.whole_rows - 1:"),
    ("how far back it goes", "agents/spinach.py", '"hint", "escalate"', '"hint"'),
    (
        "a repeated action resets the state",
        SETTINGS,
        "rollback_depth: int = Field(default=2",
        "rollback_depth: int = Field(default=3",
    ),
    (
        "so does a stop after no rows",
        "agents/machine.py",
        "return budget.premature_finish and ending",
        "return False and ending",
    ),
    ("policy at temperature 1.0, top_p 0.9", SETTINGS, "top_p: Sampling = 0.9", "top_p: Sampling = 0.8"),
    ("policy at temperature 1.0, top_p 0.9", SETTINGS, "temperature: Sampling = 1.0", "temperature: Sampling = 0.5"),
    ("15 actions after rollbacks", SETTINGS, "steps: int = Field(default=15", "steps: int = Field(default=16"),
    ("30 actions in all", SETTINGS, "actions: int = Field(default=30", "actions: int = Field(default=31"),
    ("feedback: a timeout, after 60 seconds", SETTINGS, "query_timeout: float = 60.0", "query_timeout: float = 50.0"),
    ("row-major recall; extra columns are free", TABLES, '_IGNORED = ("Label", "Description")', "_IGNORED = ()"),
    ("row-major F1 and EM", TABLES, "2 * tp / (2 * tp + fp + fn)", "tp / (tp + fp + fn)"),
    ("rows assigned by greatest recall", TABLES, "gold_rows - tp", "gold_rows - matched"),
    ("ToG begins at up to 20 gold results", "src/kbnav/evaluation/gold.py", "TOPICS = 20", "TOPICS = 19"),
    (
        "minimum detectable effect",
        "src/kbnav/evaluation/metrics/statistics.py",
        "power: float = 0.8\n",
        "power: float = 0.9\n",
    ),
    # STaRK
    (
        "Shannon entropy",
        STATISTICS,
        "count / total * math.log2(total / count)",
        "count / total * math.log(total / count)",
    ),
    (
        "v is 20, and 10 for human-generated queries",
        "src/kbnav/evaluation/datasets/formats.py",
        "HUMAN_TOP_V = 10",
        "HUMAN_TOP_V = 20",
    ),
    (
        "v is 20, and 10 for human-generated queries",
        "src/kbnav/retrieval/rerank.py",
        "top_v: int = Field(default=20",
        "top_v: int = Field(default=21",
    ),
    (
        "Recall@20 is left out of human-generated",
        "src/kbnav/evaluation/datasets/formats.py",
        'frozenset({"recall@20"})',
        "frozenset()",
    ),
    (
        "it sees text and relations",
        "src/kbnav/retrieval/rerank.py",
        "compact=True, n_rel=most",
        "compact=True, n_rel=0",
    ),
    ("a model scores the first v nodes", "src/kbnav/retrieval/rerank.py", "(score or 0.0) + ", "0.0 + "),
    ("step 4: models check the other candidates", MADE, "if all(found)]", "if any(found)]"),
    ("its precision", MADE, "if not all(passed.values()):", "if False:"),
    ("which model made which step", MADE, '"spent": self._models.report(),', '"spent": {},'),
    ("step 3: two models write one query", MADE, '"query": fused, ', '"query": draft.relational, '),
    ("Multi-VSS", "src/kbnav/retrieval/documents.py", 'aggregate: Aggregate = "max"', 'aggregate: Aggregate = "mean"'),
    (
        "BM25",
        "src/kbnav/retrieval/documents.py",
        "name_weight: float = Field(default=0.0",
        "name_weight: float = Field(default=2.0",
    ),
    ("dense retriever: two encoders", "src/kbnav/training/dense.py", '("vss=20",)', '("vss=5",)'),
    ("Hit@1, Hit@5, Recall@20, MRR", RANKING, "1 / own[0] if own", "1 / own[-1] if own"),
    # PASemiQA and the walking agents
    (
        "target: the shortest paths to answers",
        "src/kbnav/planning/training.py",
        "1.0 / len(weights)",
        "0.9 / len(weights)",
    ),
    ("K, one number for Search, Query and matching", OPTIONS, "        return self.k\n", "        return 10\n"),
    ("Query: the K nearest by cosine", OPTIONS, '{"short": 0, "query": "cosine"}', '{"short": 0}'),
    ("Search: all neighbours, the K best chosen", OPTIONS, '{"short": 0, "query"', '{"query"'),
    ("Search: all neighbours, the K best chosen", OPTIONS, '{"short": 0} if "k" in given', '{} if "k" in given'),
    ("T rounds at most", OPTIONS, "rounds: int = Field(default=10", "rounds: int = Field(default=12"),
    ("RoG: one prompt answers", OPTIONS, "tokens: int = Field(default=4_000", "tokens: int = Field(default=40_000"),
    ("ToG: depth 3 and width 3", OPTIONS, "depth: int = Field(default=3", "depth: int = Field(default=2"),
    ("ToG: depth 3 and width 3", OPTIONS, "width: int = Field(default=3", "width: int = Field(default=4"),
    ("ToG: temperature 0.4 while exploring", OPTIONS, '"exploration": 0.4', '"exploration": 0.5'),
    ("ToG: relations searched and pruned", "agents/tog.py", "taken.get(source, 0) < width", "len(chosen) < width"),
    ("ToG: entities pruned by relation", "agents/tog.py", "0.0) * score)", "0.0))"),
    ("ToG: what scores 0 is left out", "agents/tog.py", "if link.score > 0]", "if link.score >= 0]"),
    ("ToG: what scores 0 is left out", "agents/tog.py", "if score > 0 and taken", "if taken"),
    ("ToG: the relation followed is not offered", "agents/tog.py", "if (fact.source, fact.relation) not in back]", "]"),
    ("ToG: pruning by BM25 or embeddings", "agents/tog.py", "rarity * bag[word]", "0 * bag[word]"),
    ("ToG-R", "agents/tog.py", 'return links, Scored({}, "drawn at random")', "pass"),
    ("GoG: generating n times", OPTIONS, "samples: int = Field(default=3", "samples: int = Field(default=1"),
    ("GoG: after unknown, a hop further", "agents/gog.py", "ROUNDS = 3", "ROUNDS = 4"),
    ("ToG, RoG and GoG know no documents", OPTIONS, '{"documents": "none", "exploration"', '{"exploration"'),
    ("ToG, RoG and GoG know no documents", OPTIONS, '{"documents": "none", "short": 0}', '{"short": 0}'),
    ("ToG, RoG and GoG know no documents", OPTIONS, '{"documents": "none"}', "{}"),
    # Agent Retriever
    ("which nodes a program ranks", "src/kbnav/programs/first_stage.py", "SIZE = 200", "SIZE = 100"),
    (
        "queries are put into k groups",
        "src/kbnav/programs/groups.py",
        "return found\n\n\ndef merged",
        "return [min(one, 1) for one in found]\n\n\ndef merged",
    ),
    ("programs are written until they run", WRITER, "if history.last.broken and tried", "if False and tried"),
    ("100 rounds, or until it converges", "src/kbnav/programs/train.py", ')["mrr"] >= 1.0:', ')["mrr"] >= 2.0:'),
    ("MRR over the rounds", STEPS, "best = mrr if step.accepted and mrr is not None", "best = mrr if mrr is not None"),
    ("feedback: ranking against gold nodes", WRITER, "THRESHOLD = 0.5", "THRESHOLD = 0.0"),
    (
        "a query on which a program fails",
        STEPS,
        "others = [node for node in first",
        "others = [node for node in first if not outcome.error",
    ),
    ("numbers of the best programs", STEPS, "if not step.instruction or not after", "if True or not after"),
    ("instructions", STEPS, 'after[0].action == "anew":', "False:"),
    # KAR and its baselines
    ("expanded query: the query, then", EXPANSION, "[*[query] * repeats, *expansions]", "[*expansions, query]"),
    (
        "the query itself as a pseudo entity",
        KAR,
        'linked = [Linked(QUERY, node, "document") for node in numbers(self._skb, found)]',
        "linked: list[Linked] = []",
    ),
    ("entity document retrieval by likeness", KAR, 'if self._options.linking == "documents" or', "if"),
    ("KG relation propagation", KAR, "le=4)] = 2", "le=4)] = 1"),
    ("document-based relation filtering, k = 10", KAR, "neighbours: Count = 10", "neighbours: Count = 9"),
    ("knowledge-aware expansion: n = 3", EXPANSION, "SAMPLES = 3", "SAMPLES = 2"),
    ("without KG", KAR, '{} if "kg" in self._options.without else ', ""),
    (
        "without document-based relation filtering",
        KAR,
        'by_name, limit = "drf" in self._options.without,',
        "by_name, limit = False,",
    ),
    ("final retrieval over all documents", KAR, "tails if self._options.with_neighbours else ()", "()"),
    ("PRF: the top 3 documents", EXPANSION, "INITIAL = 3", "INITIAL = 2"),
    (
        "AGR: analyse, generate, refine",
        EXPANSION,
        '"refine", query, trace, analysis=analysis',
        '"refine", query, trace, analysis=""',
    ),
    (
        "AGR: analyse, generate, refine",
        EXPANSION,
        '"again", query, trace, analysis=analysis',
        '"again", query, trace, analysis=""',
    ),
]
"""The first words of a row, a file, and a text in it with what takes its place."""


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


@pytest.mark.parametrize(("row", "path", "old", "new"), MUTANTS)
def test_a_changed_element_fails_the_test_of_its_row(row: str, path: str, old: str, new: str, copy: Path):
    tests = [
        f"{file}::{test}".removesuffix("::")
        for cells in ROWS
        if cells[0].startswith(row)
        for file, test in FILE.findall(cells[4])
    ]
    assert tests, f"docs/fidelity.md has no row {row}"
    source = (copy / path).read_text(encoding="utf-8")
    assert source.count(old) >= 1, f"{path} no longer has {old!r}"
    try:
        (copy / path).write_text(source.replace(old, new), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "",
            "-p",
            "no:cacheprovider",
            *dict.fromkeys(tests),
        ]
        environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        found = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    finally:
        (copy / path).write_text(source, encoding="utf-8")
    assert found.returncode == 1, found.stdout[-2000:] + found.stderr[-500:]
    assert "failed" in found.stdout
