"""``kbnav eval dataset``, ``freeze``, ``synthesize``, ``collect``, ``judge``: datasets, gold answers, questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from kbnav.answers.language import plural
from kbnav.answers.tables import markdown_table
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
    MaxCost,
    Only,
    Port,
    Retry,
    Seed,
    Skb,
    argument,
    flag,
    load,
    open_skb,
    option,
)
from kbnav.apps.cli.serve import at
from kbnav.apps.cli.terminal import Counter, StageProgress, emit, print_json, read_text, stop_on_signals
from kbnav.errors import UsageError
from kbnav.evaluation.datasets import GROUP, NAMES, ORIGINS, SOURCES, find_dataset, missing_file
from kbnav.evaluation.datasets.formats import FORMATS
from kbnav.models.prices import known_prices
from kbnav.runs.journal import read_journal
from kbnav.runs.trajectory import to_json
from kbnav.settings.model import Settings, load_settings
from kbnav.settings.plugins import origin, points
from kbnav.settings.systems import kb_kind

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.pipeline import StepModels
    from kbnav.evaluation.synthesis.sampling import SplitSizes
    from kbnav.evaluation.synthesis.templates import SynthesisReport, Synthesized
    from kbnav.evaluation.synthesis.wording import Wording
    from kbnav.knowledge.skb.store import SKB


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
    from kbnav.evaluation.human_evaluation import compare_questions

    if len(names) != 2:
        raise UsageError("--of pairs takes two datasets: questions of people, and made ones")
    human, made = (find_dataset(name) for name in names)
    found = compare_questions(human, made, count)
    table = markdown_table(["Kind", "By people", "Made"], [[one.kind, one.human, one.made] for one in found])
    emit(as_json, [asdict(one) for one in found], table.rstrip("\n"))


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
            "from": sorted({remote.url for remote in ORIGINS[name]}),
        }
        for name, (form, path) in NAMES.items()
    }
    if as_json:
        print_json({"folder": str(folder), "datasets": known, "formats": [*FORMATS]})
        return
    for name, one in known.items():
        print(f"{name:<26} {'here' if one['here'] else 'fetch':<8} {one['file']:<55} {one['licence']}")
    for point in points(GROUP):
        print(f"{point.name:<26} {point.value:<55} {origin(point)}")
    print(f"here: in {folder}; fetch: kbnav eval dataset fetch NAME downloads it")
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
    from kbnav.evaluation.gold import collect_gold, is_no_or_0
    from kbnav.knowledge.open import open_kb

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
    nothing = sum(map(is_no_or_0, rows))
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


def synthesize(
    kb: Skb,
    out: Annotated[Path, option("--out", "FILE", "File of the test questions (.jsonl); the others beside it.")],
    extract: Annotated[str, option("--extract", "MODEL", "Let models make them: this one reads nodes' texts.")] = "",
    fuse: Annotated[str, option("--fuse", "MODEL", "This one writes the query; default: that of --extract.")] = "",
    rewrite: Annotated[str, option("--rewrite", "MODEL", "This one rewrites it; default: that of --extract.")] = "",
    verify: Annotated[str, option("--verify", "MODEL,…", "These must agree on answers; default: --extract's.")] = "",
    most: Annotated[int, option("--most", "N", "Candidates of a question that are verified.", min=1)] = 50,
    max_cost: MaxCost = None,
    count: Annotated[int, option("--count", "N", "Test questions.", min=1)] = 200,
    train: Annotated[int, option("--train", "N", "Questions for training, in …-train.jsonl.", min=0)] = 0,
    val: Annotated[int, option("--val", "N", "Questions for validation, in …-val.jsonl.", min=0)] = 0,
    seed: Seed = 1,
    wording: Annotated[str, option("--wording", "NAME", "hetionet, wordnet, wn18rr, debian, or a TOML file.")] = "",
    reworded: Annotated[
        str, option("--reworded", "NAME", "Also in other words, in …-reworded.jsonl; by a name as of --wording.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Make questions that need a relation path and a phrase of the answer's text, from a local knowledge base.

    With --extract, language models make them in four steps, as for STaRK.

    A model is a name, or NAME@URL or NAME@ENDPOINT (setting model_endpoints) for an endpoint of its own. Replies are
    saved beside the questions, so the same command continues a stopped run.

    For example: kbnav eval synthesize --kb demo --count 20 --out made.jsonl
    """
    from kbnav.evaluation.synthesis.sampling import SplitSizes
    from kbnav.evaluation.synthesis.sampling import synthesize as by_rules
    from kbnav.evaluation.synthesis.templates import write_questions, write_splits
    from kbnav.evaluation.synthesis.wording import Rewording, Wording, load_words
    from kbnav.evaluation.synthesis.wording import reworded as in_other_words

    words = load_words(Wording, wording) if wording else Wording()
    settings = load(kb=kb)
    again = load_words(Rewording, reworded) if reworded else None
    wanted = SplitSizes(count, train, val, seed)
    if extract and reworded:
        raise UsageError("--reworded words questions that rules made; those by --extract are rewritten anyway")
    if (fuse or rewrite or verify) and not extract:
        raise UsageError("--fuse, --rewrite and --verify go with --extract, which may be the same model")
    with open_skb(settings, "the synthesis of questions") as base:
        skb = base.skb
        if extract:
            from kbnav.evaluation.synthesis.pipeline import StepModels

            verifiers = tuple(one.strip() for one in verify.split(",") if one.strip()) or (extract,)
            steps = StepModels(extract, fuse or extract, rewrite or extract, verifiers)
            questions, report = _by_models(skb, wanted, words, settings, out, steps, most, max_cost)
        else:
            with closing(Counter("questions")) as shown:
                questions, report = by_rules(skb, wanted, words, progress=shown)
        files = write_questions(out, questions, report)
        if again:
            found = in_other_words(skb, questions, words, again, seed)
            if len(found) < len(questions):
                print(f"{len(questions) - len(found)} questions could not be put in other words", file=sys.stderr)
            files += write_splits(out.with_name(f"{out.name.removesuffix('.jsonl')}-reworded.jsonl"), found)
    if as_json:
        made = {"sampled": report.sampled, "kept": dict(report.kept), "dropped": dict(report.dropped)}
        print_json({**made, "pipeline": report.pipeline, "files": [str(path) for path in files]})
    else:
        print("\n".join(_report_lines(report, files)))
    raise typer.Exit(0 if len(questions) == count + train + val else 1)


def _by_models(
    skb: SKB, wanted: SplitSizes, wording: Wording, settings: Settings, out: Path, steps: StepModels, most: int,
    limit: float | None,
) -> tuple[list[Synthesized], SynthesisReport]:  # fmt: skip
    """The questions, made by models up to a ``limit`` of dollars; replies are saved beside ``out``."""
    from kbnav.evaluation.synthesis.pipeline import model_price, open_models, synthesize_with_models

    prices = known_prices(settings)
    for model in steps.models:
        if limit is not None and model_price(model, prices) is None:
            raise UsageError(f"--max-cost needs the price of {model}: set prices.{model} in kbnav.toml")
    models = open_models(steps, settings, out.with_name(f"{out.name.removesuffix('.jsonl')}.replies.sqlite"))

    def enough() -> bool:
        return limit is not None and (models.dollars or 0.0) >= limit

    try:
        with closing(Counter("questions")) as shown:
            made = synthesize_with_models(skb, wanted, wording, models, most=most, enough=enough, progress=shown)
    except BaseException:
        print("stopped; replies are saved: the same command continues it", file=sys.stderr)
        raise
    if enough():
        print(f"stopped at ${limit:g}; with more the same command continues it", file=sys.stderr)
    return made


def _report_lines(report: SynthesisReport, files: Sequence[Path]) -> Iterator[str]:
    if report.pipeline:
        yield from _pipeline_lines(report.pipeline)
    kept = ", ".join(f"{count} {split}" for split, count in report.kept.items() if count)
    yield f"{report.sampled} sampled, {sum(report.kept.values())} kept: {kept or 'none'}"
    for reason, count in sorted(report.dropped.items(), key=lambda item: -item[1]):
        yield f"  {count} dropped: {reason}"
    yield ", ".join(map(str, files))


def _pipeline_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What a report says of the models' part."""
    gold, candidates = found["gold"], found["candidates"]
    if gold["verified"]:
        by_model = ", ".join(f"{model} {count}" for model, count in gold["passed_by_model"].items())
        passed = f"{gold['passed']} of {gold['verified']}, {100 * gold['precision']:.1f} %"
        yield f"gold nodes that pass the verification: {passed} ({by_model})"
    yield (
        f"candidates verified: {candidates['verified']}, accepted: {candidates['accepted']}, verifiers disagreed on: "
        f"{candidates['verifiers_disagreed']}, not verified for the cap of {candidates['cap']}: "
        f"{candidates['left_out_by_the_cap']}"
    )
    for who, spent in found["spent"].items():
        cost = "price not known" if spent["dollars"] is None else f"${spent['dollars']:.4f}"
        yield (
            f"{who}: {spent['calls']} calls and {spent['kept_from_before']} kept from before, {spent['retries']} "
            f"retries, {spent['tokens_read']:,} + {spent['tokens_written']:,} tokens, {cost}"
        )
