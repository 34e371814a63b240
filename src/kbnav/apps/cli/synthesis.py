"""``kbnav eval synthesize``: make questions from an SKB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import BaseUrlOption, JsonOption, ModelOption, load
from kbnav.apps.cli.pipeline import Job, pipeline_lines, print_estimate
from kbnav.apps.cli.terminal import print_json
from kbnav.errors import UsageError

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.templates import Report, Synthesized
    from kbnav.evaluation.synthesis.wording import Reworder
    from kbnav.knowledge.skb.store import SKB
    from kbnav.settings.model import Settings

    Worder = Callable[[Synthesized, Sequence[str]], str | None]

_EVERY = 50


def synthesize(
    kb: Annotated[str, typer.Option("--kb", metavar="KB", help="demo, or the folder of an SKB.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="File of the test questions (.jsonl); the others beside it.")
    ],
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Test questions.")] = 200,
    train: Annotated[
        int, typer.Option("--train", metavar="N", min=0, help="Questions for training, in …-train.jsonl.")
    ] = 0,
    val: Annotated[
        int, typer.Option("--val", metavar="N", min=0, help="Questions for validation, in …-val.jsonl.")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same questions.")] = 1,
    wording: Annotated[
        str,
        typer.Option(
            "--wording", metavar="NAME", help="hetionet, wordnet, wn18rr, debian, or a TOML file; else words by rule."
        ),
    ] = "",
    reworded: Annotated[
        str,
        typer.Option(
            "--reworded",
            metavar="NAME",
            help="Every question in other words as well, in …-reworded.jsonl; a name as of --wording, or a TOML file.",
        ),
    ] = "",
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    extract: Annotated[
        str,
        typer.Option(
            "--extract", metavar="MODEL", help="Make the questions by models: this one reads what a node's text meets."
        ),
    ] = "",
    fuse: Annotated[
        str, typer.Option("--fuse", metavar="MODEL", help="This one writes the query; default: that of --extract.")
    ] = "",
    rewrite: Annotated[
        str,
        typer.Option(
            "--rewrite",
            metavar="MODEL",
            help="This one rewrites it; default: that of --extract. With --reworded it words those; else rules do.",
        ),
    ] = "",
    verify: Annotated[
        str,
        typer.Option(
            "--verify", metavar="MODEL,…", help="These must agree on each answer; default: that of --extract alone."
        ),
    ] = "",
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Candidates of a question that are verified.")
    ] = 50,
    only_estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what the models would cost, and ask none of them.")
    ] = False,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="DOLLARS", min=0, help="Stop after so many US dollars; goes on later."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make questions that need a relation path and a phrase of the answer's text, from a local knowledge base.

    With --extract by language models in four steps, as STaRK does.

    A model is a name, or NAME@URL or NAME@ENDPOINT (setting model_endpoints) for an endpoint of its own. Stopped, the
    same command goes on: replies are kept beside the questions.
    """
    from kbnav.evaluation.synthesis.sampling import Wanted, synthesize
    from kbnav.evaluation.synthesis.templates import write_questions
    from kbnav.evaluation.synthesis.wording import Reworder, Wording, load_rewording, load_wording
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb
    from kbnav.settings.model import OFFLINE

    words = load_wording(wording) if wording else Wording()
    settings = load(kb=kb, model=model or OFFLINE, base_url=base_url)
    again = load_rewording(reworded) if reworded else None
    wanted = Wanted(count, train, val, seed)
    _check(model, extract, rewrite, reworded, fuse or verify)
    job = Job(extract, fuse, rewrite, verify, most, max_cost) if extract else None
    with open_kb(settings) as base:
        skb = as_skb(base, "the synthesis of questions").skb
        if job and only_estimate:
            print_estimate(job.estimate(skb, wanted, words, settings), as_json)
            return
        if job:
            questions, report = job.run(skb, wanted, words, settings, out, _show)
        else:
            questions, report = synthesize(skb, wanted, words, worder=_worder(skb, settings), progress=_show)
        files = write_questions(out, questions, report)
        if again:
            rewriter = _worder(skb, load(kb=kb, model=rewrite or OFFLINE, base_url=base_url))
            files += _reword(questions, Reworder.of(skb, words, again, seed=seed, rewriter=rewriter), out)
    if as_json:
        made = {"sampled": report.sampled, "kept": dict(report.kept), "dropped": dict(report.dropped)}
        print_json({**made, "pipeline": report.pipeline, "files": [str(path) for path in files]})
    else:
        _print(report, files)
    raise typer.Exit(0 if len(questions) == count + train + val else 1)


def _check(model: str | None, extract: str, rewrite: str, reworded: str, others: str) -> None:
    """Raise UsageError where the options do not go together."""
    if extract and model:
        raise UsageError("--model words questions that rules make; with --extract say --fuse and --rewrite")
    if extract and reworded:
        raise UsageError(
            "--reworded words questions that rules made; those by --extract are rewritten as they are made"
        )
    if others and not extract:
        raise UsageError("--fuse and --verify go with --extract, which may be the same model")
    if rewrite and not (reworded or extract):
        raise UsageError("--rewrite words questions again: name their other words too, by --reworded")


def _reword(questions: Sequence[Synthesized], reworder: Reworder, out: Path) -> list[Path]:
    """Write the questions in other words; the files made."""
    from kbnav.evaluation.synthesis.templates import reworded_file, write_splits

    found = list(reworder.reword(questions))
    if reworder.left_out:
        print(f"{reworder.left_out} questions could not be put in other words", file=sys.stderr)
    return write_splits(reworded_file(out), found)


def _worder(skb: SKB, settings: Settings) -> Worder | None:
    """What asks the model; None where none is named."""
    from kbnav.settings.model import OFFLINE

    if settings.model == OFFLINE:
        return None
    from kbnav.evaluation.synthesis.models import model_worder
    from kbnav.evaluation.synthesis.wording import answer_names
    from kbnav.models.calls import open_calls

    return model_worder(open_calls(settings), partial(answer_names, skb))


def _show(done: int, total: int) -> None:
    if done % _EVERY == 0 or done == total:
        print(f"{done} of {total} questions", file=sys.stderr)


def _print(report: Report, files: Sequence[Path]) -> None:
    for line in pipeline_lines(report.pipeline):
        print(line)
    kept = ", ".join(f"{count} {split}" for split, count in report.kept.items() if count)
    print(f"{report.sampled} sampled, {sum(report.kept.values())} kept: {kept or 'none'}")
    for reason, count in sorted(report.dropped.items(), key=lambda item: -item[1]):
        print(f"  {count} dropped: {reason}")
    print(", ".join(str(path) for path in files))
