"""``kbnav eval dataset``, ``freeze``, ``collect``, ``judge``: datasets, their gold answers, people's questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from kbnav.answers.language import plural
from kbnav.apps.cli.evaluate import ids_in
from kbnav.apps.cli.options import (
    Dataset,
    Datasets,
    Given,
    Host,
    Jobs,
    Json,
    Kb,
    Many,
    Only,
    Port,
    Retry,
    Seed,
    argument,
    flag,
    load,
    option,
)
from kbnav.apps.cli.serve import at
from kbnav.apps.cli.terminal import Counter, StageProgress, emit, print_json, read_text, stop_on_signals
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import GROUP, NAMES, ORIGINS, SOURCES, find_dataset, missing_file
from kbnav.evaluation.datasets.formats import FORMATS
from kbnav.runs.journal import read_journal
from kbnav.runs.trajectory import to_json
from kbnav.settings.model import Settings, load_settings
from kbnav.settings.plugins import origin, points
from kbnav.settings.systems import kb_kind


def stats(
    datasets: Annotated[list[str], argument("DATASET", "Names, FORMAT:FILE, .jsonl; or texts.")],
    of: Annotated[
        Literal["queries", "words", "pairs"],
        flag(
            "--of",
            "queries: their complexity and variety, and lengths of questions and answers; words: entropy and "
            "type-token ratio, also of .txt and .md files; pairs: questions of people beside made ones that are like "
            "them (STaRK, Table 6).",
        ),
    ] = "queries",
    together: Annotated[bool, flag("--together", "Count datasets as one, as the splits of a set.")] = False,
    histograms: Annotated[Path | None, option("--histograms", "FOLDER", "Write all the lengths as CSV.")] = None,
    tokens: Annotated[int | None, option("--tokens", "N", "With --of words, only the first N of each.", min=1)] = None,
    count: Annotated[int, option("--count", "N", "With --of pairs, pairs of each kind.", min=1, max=50)] = 1,
    as_json: Json = False,
) -> None:
    """Print statistics of datasets, as in kbnav eval dataset stats questions.jsonl."""
    if of == "queries":
        _query_stats(datasets, together, histograms, as_json)
    elif of == "words":
        _word_stats(datasets, tokens, as_json)
    else:
        _pairs(datasets, count, as_json)


def _query_stats(names: Sequence[str], together: bool, histograms: Path | None, as_json: bool) -> None:
    from kbnav.evaluation.dataset_stats import dataset_statistics, statistics_markdown, write_histograms

    loaded = [find_dataset(name) for name in names]
    groups = [loaded] if together else [[one] for one in loaded]
    found = [dataset_statistics(*group) for group in groups]
    if histograms:
        questions = [[q for part in group for q in part.questions] for group in groups]
        made = write_histograms({one.name: some for one, some in zip(found, questions, strict=True)}, histograms)
        print(f"wrote {', '.join(map(str, made))}", file=sys.stderr)
    _print_each(found, statistics_markdown, as_json)


def _word_stats(names: Sequence[str], tokens: int | None, as_json: bool) -> None:
    from kbnav.evaluation.dataset_stats import word_statistics, words_markdown

    found = []
    for name in names:
        if name.endswith((".txt", ".md")):
            words = read_text(Path(name)).split()
        else:
            questions = find_dataset(name).questions
            words = [word for question in questions for word in question.text().split()]
        found.append(word_statistics(name, words, tokens))
    _print_each(found, words_markdown, as_json)


def _print_each(found: Sequence[Any], markdown: Callable[[Any], str], as_json: bool) -> None:
    print("\n".join(map(to_json, found)) if as_json else markdown(found), end="\n" if as_json else "")


def _pairs(names: Sequence[str], count: int, as_json: bool) -> None:
    from kbnav.evaluation.human_evaluation import compare_questions, pairs_markdown

    if len(names) != 2:
        raise UsageError("--of pairs takes two datasets: questions of people, and made ones")
    human, made = (find_dataset(name) for name in names)
    found = compare_questions(human, made, count)
    emit(as_json, [asdict(one) for one in found], pairs_markdown(found).rstrip("\n"))


def list_(as_json: Json = False) -> None:
    """List the datasets known by name, their licences, which are here and where, and the formats.

    For example: kbnav eval dataset list --json
    """
    folder = load().benchmarks
    known = {
        name: {
            "file": path,
            "licence": SOURCES[form].licence,
            "here": missing_file(name, folder) is None,
            "from": sorted({remote.url for remote in ORIGINS.get(name, ())}),
            "fetch": name in ORIGINS,
        }
        for name, (form, path) in NAMES.items()
    }
    if as_json:
        print_json({"folder": str(folder), "datasets": known, "formats": [*FORMATS]})
        return
    for name, one in known.items():
        state = "here" if one["here"] else "fetch" if one["fetch"] else "by hand"
        print(f"{name:<26} {state:<8} {one['file']:<55} {one['licence']}")
    for point in points(GROUP):
        print(f"{point.name:<26} {point.value:<55} {origin(point)}")
    print(f"here: in {folder}; fetch: kbnav eval dataset fetch NAME downloads it; by hand: the same says from where")
    print(f"formats: {', '.join(FORMATS)}")


def fetch(datasets: Datasets, as_json: Json = False) -> None:
    """Download datasets from their publishers into the folder of the setting benchmarks.

    For example: kbnav eval dataset fetch qald-10
    """
    from kbnav.evaluation.datasets import fetch

    settings = load()
    with StageProgress(Console(stderr=True)) as progress:
        found = {
            name: fetch(name, settings.benchmarks, timeout=settings.limits.request_timeout, progress=progress)
            for name in datasets
        }
    sources = {name: SOURCES[NAMES[name][0]] for name in found}
    if as_json:
        files = {name: [file._asdict() | {"path": str(file.path)} for file in found[name]] for name in found}
        print_json({name: {"files": files[name], **asdict(sources[name])} for name in found})
        return
    for name, source in sources.items():
        for file in found[name]:
            state = "downloaded" if file.new else "was here"
            print(f"{file.path}: {state}, {file.size:,} bytes, SHA-256 {file.sha256}")
        print(f"{name}: {source.licence}; cite {source.citation}")


def freeze(
    dataset: Dataset,
    out: Annotated[Path, option("--out", "FOLDER", "Folder for <dataset>.jsonl; an unfinished one is continued.")],
    kb: Kb = None,
    given: Given = None,
    jobs: Jobs = 1,
    only: Only = None,
    retry_failed: Retry = False,
    as_json: Json = False,
) -> None:
    """Run a dataset's gold queries once and save the answers with their date, for eval run --gold.

    For example: kbnav eval freeze qald-10 --kb wikidata --jobs 4 --out gold
    """
    from kbnav.evaluation.evaluate import choose
    from kbnav.evaluation.gold import collect_gold
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.sparql.diagnose import is_empty_result

    settings = load(given, kb=kb)
    load_settings(**settings.options)  # no system asks here: what is no setting is refused
    chosen = find_dataset(dataset, settings.benchmarks)
    questions = choose(chosen, ids_in(only))
    path = out / f"{chosen.name}.jsonl"
    with open_kb(settings) as base, stop_on_signals() as stop:
        answers = collect_gold(
            chosen,
            questions,
            base,
            path,
            stored=False,
            language="en" if settings.language == "auto" else settings.language,
            jobs=jobs,
            stopped=stop.is_set,
            retry_failed=retry_failed,
            listener=Counter("gold answers"),
        )
    known = [answer for answer in answers.values() if answer.known]
    rows, failed = [one for one in known if one.has_rows], [one for one in answers.values() if not one.known]
    nothing = sum(one.table is not None and is_empty_result(one.query, one.table) for one in rows)
    counts = {"questions": len(questions), "answers": len(answers), "with_rows": len(rows), "no_or_0": nothing}
    line = f"{path}: {len(answers)} of {plural(len(questions), 'question')}, {len(rows)} with rows"
    line += f" (no or 0: {nothing}), {len(failed)} failed"
    told = {"file": str(path), **counts, "failed": len(failed)}
    emit(as_json, told, line, *(f"  {one.id}: {one.error}" for one in failed[:10]))
    raise typer.Exit(0 if len(answers) == len(questions) else 1)


def collect(
    out: Annotated[Path, argument("FILE", "A .jsonl that questions are added to, as in shop-human.jsonl.")],
    kb: Annotated[str, option("--kb", "SKB", "The folder of an SKB, or demo.")] = "demo",
    types: Annotated[Many, option("--type", "TYPE", "Only nodes of this type are drawn; repeatable.")] = None,
    count: Annotated[int, option("--count", "N", "Nodes drawn at a time.", min=1, max=100)] = 10,
    seed: Seed = 0,
    host: Host = None,
    port: Port = None,
) -> None:
    """Serve a page on which people write questions about nodes drawn for them (STaRK, section 2.6, appendix D).

    For example: kbnav eval collect written.jsonl --kb demo --count 20
    """
    from kbnav.apps.web.routes.evaluation import collect_router
    from kbnav.apps.web.routes.explore import explorer_of
    from kbnav.apps.web.routes.explore import router as explore
    from kbnav.apps.web.server import small_app
    from kbnav.apps.web.service import open_service
    from kbnav.evaluation.human_evaluation import open_collection

    settings = at(load(kb=kb, model="offline"), host, port, kbs=(kb,), models=())
    with open_service(settings) as service:
        (served,) = service.kbs.values()
        if kb_kind(served.kb) != "skb":
            raise UsageError(f"{kb} is no SKB: questions are collected on nodes with documents")
        with open_collection(out, explorer_of(served), types or (), seed) as collection:
            make = partial(small_app, settings, [collect_router, explore], service, collection=collection, count=count)
            _serve(settings, make, f"Questions for {out}")


def judge(
    datasets: Annotated[Many, argument("[DATASET]", "Names, FORMAT:FILE, or your own .jsonl files.")] = None,
    out: Annotated[Path, option("--out", "FILE", "A .jsonl that ratings are added to.")] = Path("ratings.jsonl"),
    count: Annotated[int, option("--count", "N", "Questions in each sample.", min=1, max=100)] = 10,
    seed: Seed = 0,
    only_rates: Annotated[bool, flag("--rates", "Serve nothing: print the rates of what was judged so far.")] = False,
    host: Host = None,
    port: Port = None,
    as_json: Json = False,
) -> None:
    """Serve a page on which people rate questions on five points, then print the rates (STaRK, Table 5).

    For example: kbnav eval judge made.jsonl written.jsonl --out rated.jsonl
    """
    from kbnav.apps.web.routes.evaluation import judge_router
    from kbnav.apps.web.server import small_app
    from kbnav.evaluation.human_evaluation import Rating, open_judging, rating_rates, ratings_markdown

    if not only_rates:
        if not datasets:
            raise UsageError("name a dataset whose questions are to be judged, or print the rates by --rates")
        settings = at(load(), host, port)
        found = [find_dataset(name) for name in datasets]
        with open_judging(out, found, count, seed) as judging:
            make = partial(small_app, settings, [judge_router], judging=judging)
            _serve(settings, make, f"Ratings for {out}", err=as_json)
    rows = rating_rates(read_journal(out, Rating))
    records = [{**asdict(row), "rates": {name: rate._asdict() for name, rate in row.rates.items()}} for row in rows]
    emit(as_json, records, ratings_markdown(rows).rstrip("\n") if rows else "nothing was judged yet")


def _serve(settings: Settings, make: Callable[[], Any], what: str, *, err: bool = False) -> None:
    """Serve a few pages until interrupted, and print where, on standard error if ``err``. Raises StopRun."""
    from kbnav.apps.web.auth import checked
    from kbnav.apps.web.server import run_app

    def ready(address: str) -> None:
        print(f"{what} at {address}; Ctrl-C ends it", flush=True, file=sys.stderr if err else sys.stdout)

    run_app(make, checked(settings), ready=ready)
