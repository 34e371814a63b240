"""``kbnav eval vary``: copies of RDF data that are changed by rule, and questions for them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbnav.apps.cli.arguments import DataOption, JsonOption, load
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.evaluation.datasets import Question


def vary(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The data as RDF: .ttl, .nt, …, also .gz.")],
    dataset: Annotated[
        str, typer.Option("--dataset", metavar="DATASET", help="Questions on the data, with their gold queries.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder of what is made.")],
    data: DataOption = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same files.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Make a changed copy of the data, an opaque one, and questions whose right answer is that there is none.

    changed.nt has other facts about the same things: kbnav eval score RUN --copy. opaque.nt has IRIs that say nothing,
    and opaque.jsonl the questions with them. On silent.nt some of the questions have no answer; empty.jsonl has others
    that have none on the data itself.
    """
    from kbnav.errors import UsageError
    from kbnav.evaluation import variants
    from kbnav.evaluation.evaluate import find_dataset
    from kbnav.runs.journal import write_whole

    questions = [one for one in find_dataset(dataset, load(data=data).data).questions if one.query]
    if not questions:
        raise UsageError(f"{dataset} has no question with a gold query")
    graph = variants.Graph.read(files)
    if not graph.things:
        raise UsageError("the data has no thing with a type: what is to be changed is found by rdf:type")
    out.mkdir(parents=True, exist_ok=True)
    copy, moved = variants.changed(graph, seed)
    opaque = variants.Opaque.of(graph, seed)
    empty = list(variants.empty(graph, questions, seed))
    silent, quiet = variants.silenced(graph, questions, seed)
    variants.write(copy, out / "changed.nt")
    variants.write(silent, out / "silent.nt")
    variants.write(opaque.data(graph), out / "opaque.nt")
    write_whole(out / "opaque.jsonl", _lines(map(opaque.question, questions)))
    write_whole(out / "empty.jsonl", _lines(empty))
    told = {
        "statements": len(graph.store), "on_the_changed_copy": len(copy), "with_another_object": moved.total(),
        "things_renamed": len(opaque.names), "questions": len(questions), "without_an_answer": len(empty),
        "silent": quiet,
    }  # fmt: skip
    if as_json:
        print_json({**told, "by_predicate": dict(sorted(moved.items()))})
        return
    print(f"changed.nt: {len(copy):,} of {len(graph.store):,} statements, {moved.total():,} with another object")
    print(f"opaque.nt, opaque.jsonl: {len(opaque.names):,} things under new IRIs, {len(questions)} questions")
    print(f"silent.nt: {len(silent):,} statements, {len(quiet)} of the questions have no answer there")
    print(f"empty.jsonl: {len(empty)} questions without an answer, of {len(questions)}")


def _lines(questions: Iterable[Question]) -> str:
    def record(one: Question) -> dict[str, Any]:
        return {**one.meta, "id": one.id, "question": dict(one.texts), "sparql": one.query}

    return "".join(f"{json.dumps(record(one), ensure_ascii=False)}\n" for one in questions)
