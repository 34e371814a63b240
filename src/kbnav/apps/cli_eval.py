"""``kbnav eval``: run, score, compare, ablate, freeze, replay and import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli_synthesis import synthesize

if TYPE_CHECKING:
    from kbnav.evaluation.evaluate import Plan
    from kbnav.evaluation.runner import Ended
    from kbnav.settings import Settings

app = typer.Typer(
    help="Run systems over benchmark questions, score them, compare them.", no_args_is_help=True, rich_markup_mode=None
)

dataset_app = typer.Typer(help="Look at the datasets.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(dataset_app, name="dataset")
app.command()(synthesize)

SystemOption = Annotated[str, typer.Option("--system", help="Which system answers, such as spinach.")]
DatasetOption = Annotated[
    str, typer.Option("--dataset", help="A dataset's name, FORMAT:FILE, or the file of one's own questions (.jsonl).")
]
DatasetArgument = Annotated[str, typer.Argument(help="A dataset's name, FORMAT:FILE, or one's own .jsonl file.")]
DataOption = Annotated[Path | None, typer.Option("--data", help="Folder of the benchmarks' published files.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the run; an unfinished run in it is gone on with.")]
KbOption = Annotated[
    str | None, typer.Option("--kb", help="mini (bundled), wikidata (live), the folder of a mirror, or its URL.")
]
ModelOption = Annotated[str | None, typer.Option("--model", help="offline, or the name of a chat model.")]
UrlOption = Annotated[str | None, typer.Option("--base-url", help="Any OpenAI-compatible endpoint.")]
LanguageOption = Annotated[
    str | None, typer.Option("--language", help="Language in which the questions are asked; default: en.")
]
JobsOption = Annotated[int, typer.Option("--jobs", min=1, max=256, help="Questions under way at once.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="Only the first so many questions.")]
OnlyOption = Annotated[Path | None, typer.Option("--only", help="File with the ids of the questions, one a line.")]
GoldOption = Annotated[
    Path | None, typer.Option("--gold", help="Frozen gold answers to score against (a file, or eval freeze's folder).")
]
AnswerableOption = Annotated[
    bool, typer.Option("--answerable", help="Leave out questions whose gold answer is empty or unknown.")
]
CostOption = Annotated[float | None, typer.Option("--max-cost", min=0, help="Stop at so many US dollars in all.")]
SecondsOption = Annotated[float | None, typer.Option("--max-seconds", min=0, help="Stop after so many seconds.")]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Ask failed questions again.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunArgument = Annotated[Path, typer.Argument(help="Folder of a run.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="An option of the system, as in top_v=10; repeatable.")
]
WITHOUT = "rollback, premature_finish, hint, pruning, kg or drf (of kar), or a tool; several with commas."


@app.command()
def run(
    dataset: DatasetOption,
    out: OutOption,
    system: SystemOption = "spinach",
    kb: KbOption = None,
    data: DataOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
    language: LanguageOption = None,
    jobs: JobsOption = 1,
    limit: LimitOption = None,
    only: OnlyOption = None,
    gold: GoldOption = None,
    answerable: AnswerableOption = False,
    max_cost: CostOption = None,
    max_seconds: SecondsOption = None,
    retry_failed: RetryOption = False,
    without: Annotated[list[str] | None, typer.Option("--without", help=f"Leave out {WITHOUT}")] = None,
    chosen: SetOption = None,
) -> None:
    """Ask every question of a dataset; run it again to go on after a kill, a limit or Ctrl-C."""
    settings = _settings(kb=kb, data=data, model=model, base_url=base_url, language=language, options=_chosen(chosen))
    plan = _plan(settings, system, dataset, jobs, limit, only, gold, answerable, max_cost, max_seconds, retry_failed)
    raise typer.Exit(0 if _run_one(plan, _names(without), out) == "done" else 1)


@app.command()
def ablate(
    dataset: DatasetOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs: full, and one for each --without.")],
    without: Annotated[list[str], typer.Option("--without", help=f"One ablation each: {WITHOUT}")],
    system: SystemOption = "spinach",
    kb: KbOption = None,
    data: DataOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
    language: LanguageOption = None,
    jobs: JobsOption = 1,
    limit: LimitOption = None,
    only: OnlyOption = None,
    gold: GoldOption = None,
    answerable: AnswerableOption = False,
    max_cost: CostOption = None,
    max_seconds: SecondsOption = None,
    retry_failed: RetryOption = False,
    chosen: SetOption = None,
) -> None:
    """Run a system whole and once without each tool or rule named, and compare (SPINACH, Table 4).

    Limits of cost and time are those of each run.
    """
    settings = _settings(kb=kb, data=data, model=model, base_url=base_url, language=language, options=_chosen(chosen))
    plan = _plan(settings, system, dataset, jobs, limit, only, gold, answerable, max_cost, max_seconds, retry_failed)
    if _run_one(plan, [], out / "full") != "done":
        raise typer.Exit(1)
    for names in without:
        folder = out / f"without-{names.replace(',', '-')}"
        if _run_one(plan, _names([names]), folder) != "done":
            raise typer.Exit(1)
        _print_comparison(out / "full", folder)


@app.command()
def sweep(
    dataset: DatasetOption,
    out: Annotated[Path, typer.Option("--out", help="Folder of the runs, one for each value.")],
    vary: Annotated[
        list[str], typer.Option("--vary", help="An option and its values, as in k=3,5,10; repeatable, one at a time.")
    ],
    system: SystemOption = "pasemiqa",
    kb: KbOption = None,
    data: DataOption = None,
    model: ModelOption = None,
    base_url: UrlOption = None,
    language: LanguageOption = None,
    jobs: JobsOption = 1,
    limit: LimitOption = None,
    only: OnlyOption = None,
    gold: GoldOption = None,
    answerable: AnswerableOption = False,
    max_cost: CostOption = None,
    max_seconds: SecondsOption = None,
    retry_failed: RetryOption = False,
    chosen: SetOption = None,
) -> None:
    """Run a system once for each value of an option, the others as --set has them, and compare (PASemiQA, 5.3).

    Limits of cost and time are those of each run.
    """
    from kbnav.apps.eval_console import print_sweep
    from kbnav.evaluation.systems import system_options
    from kbnav.options import parse_set

    fixed = _chosen(chosen) or {}
    given = [(name, value) for name, values in parse_set(vary).items() for value in _names([str(values)])]
    varied = {f"{name}={value}": system_options(system, {**fixed, name: value}) for name, value in given}
    for name, options in varied.items():
        settings = _settings(kb=kb, data=data, model=model, base_url=base_url, language=language, options=options)
        plan = _plan(
            settings, system, dataset, jobs, limit, only, gold, answerable, max_cost, max_seconds, retry_failed
        )
        if _run_one(plan, [], out / name) != "done":
            raise typer.Exit(1)
    print_sweep(out, list(varied))


@app.command()
def score(folder: RunArgument, as_json: JsonOption = False) -> None:
    """Score a run anew from its recordings, and write scores.json beside them."""
    from kbnav.apps.eval_console import print_scores
    from kbnav.evaluation.evaluate import score_folder
    from kbnav.evaluation.records import read_saved_run
    from kbnav.trajectory import to_json

    scores = score_folder(folder)
    if as_json:
        print(to_json(scores))
    else:
        print_scores(str(folder), read_saved_run(folder), scores)


@app.command()
def compare(a: RunArgument, b: RunArgument, as_json: JsonOption = False) -> None:
    """Compare two runs question by question: intervals, and a paired randomisation test."""
    if as_json:
        from kbnav.evaluation.records import read_saved_run
        from kbnav.evaluation.scoring import compare_runs
        from kbnav.trajectory import to_json

        print(to_json(compare_runs(read_saved_run(a), read_saved_run(b))))
    else:
        _print_comparison(a, b)


@app.command()
def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs; the others are compared with the first.")],
    html: Annotated[Path | None, typer.Option("--html", help="One self-contained page.")] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", help="Tables for a paper; printed by default.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Folder for summary.csv and questions.csv.")] = None,
    plots: Annotated[Path | None, typer.Option("--plots", help="Folder for PNG plots; needs kbnav[plot].")] = None,
) -> None:
    """Report on runs: scores, actions, tokens, cost, classes of errors, every question."""
    from kbnav.evaluation import report as reports
    from kbnav.evaluation.journal import write_whole

    found = reports.load_report(folders)
    if html:
        write_whole(html, reports.html_report(found))
    if markdown:
        write_whole(markdown, reports.markdown_report(found))
    if csv:
        write_whole(csv / "summary.csv", reports.summary_csv(found))
        write_whole(csv / "questions.csv", reports.questions_csv(found))
    if plots:
        reports.write_plots(found, plots)
    if not (html or markdown or csv or plots):
        print(reports.markdown_report(found), end="")


@dataset_app.command("stats")
def dataset_stats(
    datasets: Annotated[list[str], typer.Argument(help="Names, FORMAT:FILE, or one's own .jsonl files.")],
    data: DataOption = None,
    together: Annotated[bool, typer.Option("--together", help="Count them as one, as the splits of a set.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Complexity and variety of a dataset's gold queries, and lengths of its questions and answers."""
    from kbnav.evaluation.dataset_stats import dataset_statistics, markdown
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.trajectory import to_json

    folder = _settings(data=data).data
    loaded = [find_dataset(name, folder) for name in datasets]
    found = [dataset_statistics(*group) for group in ([loaded] if together else [[one] for one in loaded])]
    print("\n".join(map(to_json, found)) if as_json else markdown(found), end="\n" if as_json else "")


@dataset_app.command("list")
def dataset_list() -> None:
    """The datasets known by name, with their licences, and the formats."""
    from kbnav.evaluation.datasets import FORMATS, NAMES, SOURCES

    for name, (form, path) in NAMES.items():
        print(f"{name:<26} {path:<55} {SOURCES[form].licence}")
    print(f"formats: {', '.join(FORMATS)}")


@app.command()
def replay(
    source: RunArgument, out: Annotated[Path, typer.Option("--out", help="Folder of the replayed run.")]
) -> None:
    """Put a run's recorded actions and observations through the state machine again: no model, no network."""
    from kbnav.apps.eval_console import print_scores
    from kbnav.evaluation.evaluate import score_folder
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.replay import replay_run

    replay_run(source, out)
    print_scores(str(out), read_saved_run(out), score_folder(out))


@app.command()
def freeze(
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder for <dataset>.jsonl; an unfinished one is gone on with.")],
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", help="SPARQL endpoint, in place of that of the knowledge base.")
    ] = None,
    kb: KbOption = None,
    data: DataOption = None,
    language: LanguageOption = None,
    jobs: JobsOption = 1,
    only: OnlyOption = None,
    retry_failed: RetryOption = False,
) -> None:
    """Run a dataset's gold queries once and keep the answers with their date, for --gold."""
    from kbnav.apps.eval_console import Counter, stop_on_signals
    from kbnav.evaluation.evaluate import choose, find_dataset
    from kbnav.evaluation.gold import collect_gold
    from kbnav.knowledge.open import open_kb

    settings = _settings(kb=kb or ("wikidata" if endpoint else None), data=data)
    if endpoint:
        changed = settings.endpoints.model_copy(update={"sparql": endpoint})
        settings = settings.model_copy(update={"endpoints": changed})
    chosen = find_dataset(dataset, settings.data)
    questions = choose(chosen, _ids(only))
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
    print(f"{path}: {len(answers)} of {len(questions)} questions, {rows} with rows, {failed} failed")
    raise typer.Exit(0 if len(answers) == len(questions) else 1)


@app.command("import")
def import_(
    predictions: Annotated[Path, typer.Argument(help="The published predictions of SPINACH (JSON, also .gz).")],
    dataset: DatasetOption,
    out: OutOption,
    data: DataOption = None,
    trajectories: Annotated[Path | None, typer.Option("--trajectories", help="Its published trajectories.")] = None,
) -> None:
    """Make a run of answers that another program recorded, to be scored and compared."""
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.evaluation.importing import import_spinach

    info = import_spinach(predictions, find_dataset(dataset, _settings(data=data).data), out, trajectories=trajectories)
    print(f"{out}: {len(info.questions)} questions of {info.dataset}")


def _settings(**overrides: object) -> Settings:
    from kbnav.settings import load_settings

    return load_settings(**overrides)


def _chosen(pairs: list[str] | None) -> dict[str, Any] | None:
    from kbnav.options import parse_set

    return parse_set(pairs) if pairs else None


def _names(without: list[str] | None) -> list[str]:
    return [name.strip() for names in without or [] for name in names.split(",") if name.strip()]


def _ids(path: Path | None) -> frozenset[str]:
    from kbnav.errors import UsageError

    if path is None:
        return frozenset()
    try:
        ids = frozenset(path.read_text(encoding="utf-8").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    return frozenset(name.strip() for name in ids if name.strip())


def _plan(
    settings: Settings,
    system: str,
    dataset: str,
    jobs: int,
    limit: int | None,
    only: Path | None,
    gold: Path | None,
    answerable: bool,
    max_cost: float | None,
    max_seconds: float | None,
    retry_failed: bool,
) -> Plan:
    from kbnav.evaluation.evaluate import Plan, find_dataset
    from kbnav.evaluation.runner import Limits

    return Plan(
        system=system,
        dataset=find_dataset(dataset, settings.data),
        settings=settings,
        only=_ids(only),
        limit=limit,
        gold=gold,
        answerable=answerable,
        jobs=jobs,
        limits=Limits(max_cost, max_seconds),
        retry_failed=retry_failed,
    )


def _run_one(plan: Plan, without: list[str], out: Path) -> Ended:
    """Run a plan, less what is left out, into a folder; then score it, finished or not."""
    from contextlib import closing
    from dataclasses import replace

    from kbnav.apps.eval_console import Counter, ProgressLine, print_scores, stop_on_signals
    from kbnav.evaluation.ablate import leave_out
    from kbnav.evaluation.evaluate import evaluate, score_folder
    from kbnav.evaluation.records import read_saved_run

    plan = replace(plan, settings=leave_out(plan.settings, without))
    line = ProgressLine()
    with stop_on_signals() as stop, closing(line):
        ended = evaluate(plan, out, stopped=stop.is_set, on_gold=Counter("gold answers"), on_progress=line)
    if (out / "questions.jsonl").exists():
        saved = read_saved_run(out)
        if any(saved.gold[name].known for name in saved.info.questions if name in saved.gold):
            print_scores(str(out), saved, score_folder(out))
        else:
            print(f"{out}: no question has a gold answer, so that nothing is scored; the runs are in questions.jsonl")
    if ended != "done":
        print(f"stopped ({ended}); the same command goes on", file=sys.stderr)
    return ended


def _print_comparison(a: Path, b: Path) -> None:
    from kbnav.apps.eval_console import print_comparison
    from kbnav.evaluation.records import read_saved_run
    from kbnav.evaluation.scoring import compare_runs

    print_comparison(str(a), str(b), compare_runs(read_saved_run(a), read_saved_run(b)))
