"""``kbnav eval synthesize``: make questions from an SKB, by rules or by language models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.options import Json, MaxCost, Seed, Skb, load, open_skb, option
from kbnav.apps.cli.terminal import Counter, print_json
from kbnav.errors import UsageError
from kbnav.models.prices import known_prices
from kbnav.settings.model import Settings

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.pipeline import StepModels
    from kbnav.evaluation.synthesis.sampling import SplitSizes
    from kbnav.evaluation.synthesis.templates import SynthesisReport, Synthesized
    from kbnav.evaluation.synthesis.wording import Wording
    from kbnav.knowledge.skb.store import SKB


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
    from kbnav.evaluation.synthesis.wording import Wording, load_rewording, load_wording
    from kbnav.evaluation.synthesis.wording import reworded as in_other_words

    words = load_wording(wording) if wording else Wording()
    settings = load(kb=kb)
    again = load_rewording(reworded) if reworded else None
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
