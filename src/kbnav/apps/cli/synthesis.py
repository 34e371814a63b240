"""``kbnav eval synthesize``: make questions from an SKB."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption, load
from kbnav.apps.cli.pipeline import Job, pipeline_lines
from kbnav.apps.cli.terminal import print_json
from kbnav.errors import UsageError

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.templates import Report

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
            help="This one rewrites it; default: that of --extract.",
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
    from kbnav.evaluation.synthesis.templates import write_questions, write_splits
    from kbnav.evaluation.synthesis.wording import Wording, load_rewording, load_wording
    from kbnav.evaluation.synthesis.wording import reworded as in_other_words
    from kbnav.knowledge.open import open_kb
    from kbnav.knowledge.skb.kb import as_skb

    words = load_wording(wording) if wording else Wording()
    settings = load(kb=kb)
    again = load_rewording(reworded) if reworded else None
    wanted = Wanted(count, train, val, seed)
    if extract and reworded:
        raise UsageError(
            "--reworded words questions that rules made; those by --extract are rewritten as they are made"
        )
    if (fuse or rewrite or verify) and not extract:
        raise UsageError("--fuse, --rewrite and --verify go with --extract, which may be the same model")
    with open_kb(settings) as base:
        skb = as_skb(base, "the synthesis of questions").skb
        if extract:
            job = Job(extract, fuse, rewrite, verify, most, max_cost)
            questions, report = job.run(skb, wanted, words, settings, out, _show)
        else:
            questions, report = synthesize(skb, wanted, words, progress=_show)
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
        _print(report, files)
    raise typer.Exit(0 if len(questions) == count + train + val else 1)


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
