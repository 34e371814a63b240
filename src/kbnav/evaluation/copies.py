"""A run checked on a changed copy of its data: the right answer by a wrong way has no credit.

The gold query and the query that the run ended with are asked of the copy; a question counts by the lower of its two
scores. An answer without a query cannot be found there, and has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from kbnav.answers.tables import AnswerTable
from kbnav.errors import FATAL, DataError, StopRun, TellModel, UsageError
from kbnav.evaluation.gold import file_sha256
from kbnav.evaluation.metrics import row_major
from kbnav.evaluation.records import COPY, SavedRun
from kbnav.evaluation.work import Patience
from kbnav.knowledge.base import KnowledgeBase
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.serving import RdfServer, is_rdf
from kbnav.runs.journal import write_whole
from kbnav.settings.model import Settings


def checked_on_copy(folder: Path, run: SavedRun, settings: Settings, kb: str) -> SavedRun:
    """The run with what each question scores on the knowledge base ``kb``, kept in the run's folder.

    ``kb`` may also be a file of RDF, which is served meanwhile.

    Raises UsageError where no question has a gold query, or the run is of rankings, and StopRun where the knowledge
    base is down.
    """
    if any(one.nodes for one in run.gold.values()):
        raise UsageError("--copy asks queries again, and this run answers with nodes")
    asked = [name for name, gold in run.gold.items() if gold.query and gold.known]
    if not asked:
        raise UsageError("--copy asks the gold queries of the copy, and no question of the run has one")
    file = Path(kb) if is_rdf(kb) else None
    told = f"{kb} {file_sha256(file)}" if file else kb
    kept = _kept(folder / COPY, told, run)
    missing = [name for name in asked if name not in kept]
    if missing:
        with _opened(settings, kb, file) as base:
            patience = Patience()
            for name in missing:
                found = _scores(run, name, base, patience)
                if found is not None:
                    kept[name] = found
        document = {"kb": told, "started": run.info.started, "questions": dict(sorted(kept.items()))}
        write_whole(folder / COPY, json.dumps(document, ensure_ascii=False, indent=0) + "\n")
    return replace(run, on_copy={name: kept[name] for name in asked if name in kept})


@contextmanager
def _opened(settings: Settings, kb: str, file: Path | None) -> Iterator[KnowledgeBase]:
    with ExitStack() as stack:
        url = stack.enter_context(RdfServer([file], workers=1)).url if file else kb
        yield stack.enter_context(open_kb(settings.model_copy(update={"kb": url})))


def _kept(path: Path, kb: str, run: SavedRun) -> dict[str, Mapping[str, float]]:
    """What was found on this copy before."""
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_bytes())
        same = document["kb"] == kb and document["started"] == run.info.started
        return dict(document["questions"]) if same else {}
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: not what was written; remove it, and the copy is asked anew") from error


def _scores(run: SavedRun, name: str, base: KnowledgeBase, patience: Patience) -> Mapping[str, float] | None:
    """F1 and EM on the copy; None where the gold query gives nothing to compare with."""
    gold = _asked(run.gold[name].query, base, patience)
    if gold is None:
        return None
    record = run.records.get(name)
    query = record.run.outcome.query if record else ""
    score = row_major(_asked(query, base, patience) if query else None, gold)
    return {"f1": score.f1, "em": score.em}


def _asked(query: str, base: KnowledgeBase, patience: Patience) -> AnswerTable | None:
    """The result; None where the query fails."""
    try:
        table = base.execute_query(query)
    except TellModel:
        return None
    except FATAL:
        raise
    except StopRun as error:
        patience.heed(str(error))
        return None
    patience.heed("")
    return table
