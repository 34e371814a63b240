"""Answers described for programs: JSON-LD in the form of RO-Crate 1.1, alone or with the files that it describes.

https://www.researchobject.org/ro-crate/specification/1.1/: a root dataset, the question with its answer, the run that
made it (CreateAction, with software, knowledge base and query), and the statements that make it true (PROV-O).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from kbnav.apps.evidence import answer_table, evidence_data
from kbnav.knowledge.evidence import Provenance
from kbnav.runs.trajectory import Run, to_json
from kbnav.sessions.evidence import asked_with, citation, knowledge_base, link_of, version_of

METADATA = "ro-crate-metadata.json"
_CONTEXT = ["https://w3id.org/ro/crate/1.1/context", {"prov": "http://www.w3.org/ns/prov#"}]
_CC0 = "https://creativecommons.org/publicdomain/zero/1.0/"
_OWN = "The terms of the knowledge base apply."
_EPOCH = (1980, 1, 1, 0, 0, 0)
Node = dict[str, Any]


@dataclass(frozen=True)
class Told:
    """An answer to share: its run, and what makes its rows true where that was looked up."""

    run: Run
    evidence: Provenance | None = None


def metadata(told: Sequence[Told], query_page: str = "", files: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The description as JSON-LD; ``files`` are those that go with it, names and media types."""
    parts = [part for one in told for part in _answer(one, query_page)]
    runs = [one.run for one in told]
    licences = {_licence(run) for run in runs}
    root: Node = {
        "@id": "./",
        "@type": "Dataset",
        "name": runs[0].question if len(runs) == 1 else f"{runs[0].question} and {len(runs) - 1} more",
        "description": " ".join(filter(None, (run.outcome.text or run.outcome.note for run in runs)))
        or "No answer was found.",
        "datePublished": runs[-1].started,
        "license": {"@id": _CC0} if licences == {_CC0} else _OWN,
        "hasPart": [{"@id": name} for name in files or ()],
        "mentions": [{"@id": f"#{run.id}"} for run in runs],
        "citation": [citation(run, query_page) for run in runs],
    }
    descriptor: Node = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    described = [{"@id": name, "@type": "File", "encodingFormat": media} for name, media in (files or {}).items()]
    once = {node["@id"]: node for node in (descriptor, root, *described, *parts)}
    return {"@context": _CONTEXT, "@graph": list(once.values())}


def crate(
    told: Sequence[Told], page: str, query_page: str = "", hide: Callable[[str], str] = lambda text: text
) -> bytes:
    """A zip file with the description, the page, and for each answer its run, query and table; ``hide`` as given."""
    files: dict[str, tuple[str, str]] = {"answer.html": ("text/html", page)}
    for one in told:
        run, outcome = one.run, one.run.outcome
        files[f"{run.id}.json"] = ("application/json", to_json(_public(run)) + "\n")
        if outcome.query:
            files[f"{run.id}.rq"] = ("application/sparql-query", outcome.query + "\n")
        found = outcome.table if outcome.table is not None else outcome.ranking
        if found is not None:
            files[f"{run.id}.csv"] = ("text/csv", found.to_csv())
    described = metadata(told, query_page, {name: media for name, (media, _) in files.items()})
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {METADATA: as_text(described), **{name: text for name, (_, text) in files.items()}}.items():
            about = zipfile.ZipInfo(name, _EPOCH)
            about.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(about, hide(text).encode("utf-8", "replace"))
    return held.getvalue()


def _public(run: Run) -> Run:
    """The run without folders of who made it, and without what services said to whoever runs kbnav."""
    settings = {name: value for name, value in run.settings.items() if name not in ("home", "data")}
    return replace(run, settings=settings, outcome=replace(run.outcome, error=""))


def as_text(document: Mapping[str, Any]) -> str:
    """JSON-LD as it is written."""
    return json.dumps(document, ensure_ascii=False, indent=1) + "\n"


def _answer(one: Told, query_page: str) -> Iterator[Node]:
    """The question, its answer, what made it, and what it rests on."""
    run, outcome = one.run, one.run.outcome
    answer, query, base = (f"#{run.id}-{part}" for part in ("answer", "query", "kb"))
    statements = list(_statements(one))
    software, model = f"#kbnav-{version_of(run)}", f"#{run.system}-{run.model}"
    yield {"@id": f"#{run.id}-question", "@type": "Question", "text": run.question, "suggestedAnswer": {"@id": answer}}
    yield {
        "@id": answer,
        "@type": "Answer",
        "text": outcome.text or outcome.note or outcome.status,
        "inLanguage": run.language,
        "creativeWorkStatus": outcome.status,
        "prov:wasGeneratedBy": {"@id": f"#{run.id}"},
        "isBasedOn": [{"@id": node["@id"]} for node in statements],
        **({"abstract": f"{outcome.absence.kind}: {outcome.absence.text}"} if outcome.absence else {}),
    }
    yield {
        "@id": f"#{run.id}",
        "@type": "CreateAction",
        "name": run.question,
        "instrument": [{"@id": software}, {"@id": model}],
        "object": [{"@id": base}, *([{"@id": query}] if outcome.query else [])],
        "result": {"@id": answer},
        "startTime": run.started,
        "endTime": _ended(run),
        "description": f"{len(run.path)} steps, {len(run.discarded)} taken back",
    }
    yield {
        "@id": software,
        "@type": "SoftwareApplication",
        "name": "kbnav",
        "softwareVersion": version_of(run),
        "softwareRequirements": [f"{name} {version}" for name, version in run.versions.items() if name != "kbnav"],
    }
    yield {"@id": model, "@type": "SoftwareApplication", "name": asked_with(run)}
    yield {"@id": base, "@type": "Dataset", "name": knowledge_base(run), "license": _licence(run)}
    if outcome.query:
        yield {
            "@id": query,
            "@type": "SoftwareSourceCode",
            "programmingLanguage": "SPARQL 1.1",
            "text": outcome.query,
            **({"url": link} if (link := link_of(run, query_page)) else {}),
        }
    yield from statements


def _statements(one: Told) -> Iterator[Node]:
    """What makes the rows true, each once, with its references as text."""
    if one.evidence is None:
        return
    told = evidence_data(one.evidence, answer_table(one.run.outcome))["rows"]
    for number, record in enumerate((record for row in told for record in row), 1):
        yield {
            "@id": record["statement"] or f"#{one.run.id}-evidence-{number}",
            "@type": ["CreativeWork", "prov:Entity"],
            "name": record["text"],
            "citation": [", ".join(link["text"] for link in links) for links in record["references"]],
        }


def _ended(run: Run) -> str:
    try:
        return (datetime.fromisoformat(run.started) + timedelta(seconds=run.seconds)).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        return run.started


def _licence(run: Run) -> str:
    """Wikidata's, of Wikidata and its copies; of others it is not known."""
    base = str((run.kb.get("mirror") or {}).get("concept_base", "")) or str(run.kb.get("endpoints", {}).get("api", ""))
    return _CC0 if run.kb.get("kind") == "wikidata" and "wikidata.org" in base else _OWN
