"""``kbnav eval synthesize``: make questions from an SKB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kbnav.evaluation.synthesis.records import Report, Synthesized
    from kbnav.knowledge.skb.store import SKB

    Worder = Callable[[Synthesized, Sequence[str]], str | None]

_EVERY = 50


def synthesize(
    kb: Annotated[Path, typer.Option("--kb", help="Folder of the SKB.")],
    out: Annotated[Path, typer.Option("--out", help="File of the test questions (.jsonl); the others beside it.")],
    count: Annotated[int, typer.Option(min=1, help="Test questions.")] = 200,
    train: Annotated[int, typer.Option(min=0, help="Questions for training, in …-train.jsonl.")] = 0,
    val: Annotated[int, typer.Option(min=0, help="Questions for validation, in …-val.jsonl.")] = 0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same questions.")] = 1,
    wording: Annotated[
        str, typer.Option(help="hetionet, wordnet, wn18rr, debian, or a TOML file; else words by rule.")
    ] = "",
    model: Annotated[str | None, typer.Option("--model", help="A chat model that words the questions.")] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Any OpenAI-compatible endpoint.")] = None,
) -> None:
    """Make questions that need a relation path and a phrase of the answer's text, from a local knowledge base."""
    from kbnav.evaluation.synthesis.generate import Wanted, synthesize
    from kbnav.evaluation.synthesis.records import write_questions
    from kbnav.evaluation.synthesis.wording import Wording, load_wording
    from kbnav.knowledge.skb.store import SKB

    words = load_wording(wording) if wording else Wording()
    with SKB.open(kb) as skb:
        worder = _worder(skb, model, base_url)
        wanted = Wanted(count, train, val, seed)
        questions, report = synthesize(skb, wanted, words, worder=worder, progress=_show)
    files = write_questions(out, questions, report)
    _print(report, files)
    raise typer.Exit(0 if len(questions) == count + train + val else 1)


def _worder(skb: SKB, model: str | None, base_url: str | None) -> Worder | None:
    """What asks the model; None where none is named."""
    if model is None or model == "offline":
        return None
    from kbnav.evaluation.synthesis.writer import model_worder
    from kbnav.models.calls import open_calls
    from kbnav.settings import load_settings

    def names_of(question: Synthesized) -> list[str]:
        return [skb.nodes.label(skb.number(node)) for node in question.answers]

    return model_worder(open_calls(load_settings(model=model, base_url=base_url)), names_of)


def _show(done: int, total: int) -> None:
    if done % _EVERY == 0 or done == total:
        print(f"{done} of {total} questions", file=sys.stderr)


def _print(report: Report, files: Sequence[Path]) -> None:
    kept = ", ".join(f"{count} {split}" for split, count in report.kept.items() if count)
    print(f"{report.sampled} sampled, {sum(report.kept.values())} kept: {kept or 'none'}")
    for reason, count in sorted(report.dropped.items(), key=lambda item: -item[1]):
        print(f"  {count} dropped: {reason}")
    print(", ".join(str(path) for path in files))
