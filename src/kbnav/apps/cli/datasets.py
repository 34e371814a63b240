"""``kbnav eval dataset`` and ``kbnav eval freeze``: look at the datasets, and keep their gold answers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kbnav.apps.cli import completion
from kbnav.apps.cli.arguments import DataOption, DatasetGiven, JsonOption, KbOption, LanguageOption, load
from kbnav.apps.cli.building import Progress
from kbnav.apps.cli.evaluate import JobsOption, OnlyOption, RetryOption, ids_in
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

app = Commands("Look at the datasets.")


def dataset_stats(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET", help="Names, FORMAT:FILE, or one's own .jsonl files.")
    ],
    data: DataOption = None,
    together: Annotated[bool, typer.Option("--together", help="Count them as one, as the splits of a set.")] = False,
    histograms: Annotated[
        Path | None,
        typer.Option("--histograms", metavar="FOLDER", help="Write lengths of questions and answers as CSV, and plot."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Complexity and variety of a dataset's gold queries, and lengths of its questions and answers."""
    from kbnav.evaluation.dataset_stats import dataset_statistics, statistics_markdown
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.runs.trajectory import to_json

    folder = load(data=data).data
    loaded = [find_dataset(name, folder) for name in datasets]
    groups = [loaded] if together else [[one] for one in loaded]
    found = [dataset_statistics(*group) for group in groups]
    if histograms:
        from kbnav.evaluation.dataset_stats import write_histograms

        named = {
            one.name: [q for part in group for q in part.questions] for one, group in zip(found, groups, strict=True)
        }
        made = write_histograms(named, histograms)
        print(f"wrote {', '.join(map(str, made))}", file=sys.stderr)
    print("\n".join(map(to_json, found)) if as_json else statistics_markdown(found), end="\n" if as_json else "")


def dataset_words(
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT", help="Text files (.txt, .md), or datasets as for stats.")
    ],
    data: DataOption = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", metavar="N", min=1, help="Only the first so many words of each.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Entropy and type-token ratio of any text; texts of different length compare at the same --tokens only."""
    from kbnav.evaluation.dataset_stats import word_statistics, words_markdown
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.runs.trajectory import to_json

    folder = load(data=data).data
    found = []
    for name in texts:
        if name.endswith((".txt", ".md")):
            words = _read(Path(name)).split()
        else:
            words = [word for question in find_dataset(name, folder).questions for word in question.text().split()]
        found.append(word_statistics(name, words, tokens))
    print("\n".join(map(to_json, found)) if as_json else words_markdown(found), end="\n" if as_json else "")


def _read(path: Path) -> str:
    from kbnav.errors import UsageError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def dataset_list(data: DataOption = None, as_json: JsonOption = False) -> None:
    """The datasets known by name, their licences, which are here and where, and the formats."""
    from kbnav.evaluation.datasets import ALIASES, FORMATS, NAMES, SOURCES
    from kbnav.evaluation.datasets.catalogue import GROUP, ORIGINS, PAGES, missing_file
    from kbnav.settings.plugins import origin, points

    folder = load(data=data).data
    known = {
        name: {
            "file": path,
            "licence": SOURCES[form].licence,
            "here": missing_file(name, folder) is None,
            "from": sorted({remote.url for remote in ORIGINS.get(name, ())}) or [PAGES.get(form, "")],
            "fetch": name in ORIGINS,
        }
        for name, (form, path) in NAMES.items()
    }
    if as_json:
        print_json({"folder": str(folder), "datasets": known, "other_names": dict(ALIASES), "formats": [*FORMATS]})
        return
    for name, one in known.items():
        state = "here" if one["here"] else "fetch" if one["fetch"] else "by hand"
        print(f"{name:<26} {state:<8} {one['file']:<55} {one['licence']}")
    for name, full in ALIASES.items():
        print(f"{name:<26} another name of {full}")
    for point in points(GROUP):
        print(f"{point.name:<26} {point.value:<55} {origin(point)}")
    print(f"here: in {folder}; fetch: kbnav eval dataset fetch NAME downloads it; by hand: the same says from where")
    print(f"formats: {', '.join(FORMATS)}")


def dataset_fetch(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET", autocompletion=completion.datasets, help="Names (eval dataset list)."),
    ],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Download datasets from their publishers into --data; stopped, it goes on where it was."""
    from dataclasses import asdict

    from rich.console import Console

    from kbnav.evaluation.datasets import ALIASES, NAMES, SOURCES
    from kbnav.evaluation.datasets.fetch import fetch

    settings = load(data=data)
    with Progress(Console(stderr=True)) as progress:
        found = {
            name: fetch(name, settings.data, timeout=settings.limits.request_timeout, progress=progress)
            for name in datasets
        }
    sources = {name: SOURCES[NAMES[ALIASES.get(name, name)][0]] for name in found}
    if as_json:
        files = {name: [asdict(file) | {"path": str(file.path)} for file in found[name]] for name in found}
        print_json({name: {"files": files[name], **asdict(sources[name])} for name in found})
        return
    for name, source in sources.items():
        for file in found[name]:
            state = "downloaded" if file.new else "was here"
            print(f"{file.path}: {state}, {file.size:,} bytes, SHA-256 {file.sha256}")
        print(f"{name}: {source.licence}; cite {source.citation}")


def freeze(
    dataset: DatasetGiven,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FOLDER", help="Folder for <dataset>.jsonl; an unfinished one is gone on with."),
    ],
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="SPARQL endpoint, in place of that of the knowledge base."),
    ] = None,
    kb: KbOption = None,
    data: DataOption = None,
    language: LanguageOption = None,
    jobs: JobsOption = 1,
    only: OnlyOption = None,
    retry_failed: RetryOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a dataset's gold queries once and keep the answers with their date, for --gold."""
    from kbnav.apps.eval_console import Counter, stop_on_signals
    from kbnav.evaluation.evaluate import choose, find_dataset
    from kbnav.evaluation.gold import collect_gold
    from kbnav.knowledge.open import open_kb

    settings = load(kb=kb or ("wikidata" if endpoint else None), data=data)
    if endpoint:
        changed = settings.endpoints.model_copy(update={"sparql": endpoint})
        settings = settings.model_copy(update={"endpoints": changed})
    chosen = find_dataset(dataset.name, settings.data)
    questions = choose(chosen, ids_in(only))
    path = out / f"{chosen.name}.jsonl"
    with open_kb(settings) as base, stop_on_signals() as stop:
        answers = collect_gold(
            chosen,
            questions,
            base,
            path,
            stored=False,
            language=language or "en",
            jobs=jobs,
            stopped=stop.is_set,
            retry_failed=retry_failed,
            listener=Counter("gold answers"),
        )
    known = [answer for answer in answers.values() if answer.known]
    rows = sum(answer.has_rows for answer in known)
    failed = len(answers) - len(known)
    if as_json:
        counts = {"questions": len(questions), "answers": len(answers), "with_rows": rows, "failed": failed}
        print_json({"file": str(path), **counts})
    else:
        print(f"{path}: {len(answers)} of {len(questions)} questions, {rows} with rows, {failed} failed")
    raise typer.Exit(0 if len(answers) == len(questions) else 1)


app.add(dataset_list, "list")
app.add(dataset_fetch, "fetch")
app.add(dataset_stats, "stats")
app.add(dataset_words, "words")
