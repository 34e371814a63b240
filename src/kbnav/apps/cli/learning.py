"""``kbnav explore`` and ``kbnav learn``: notes on a knowledge base, and questions that were solved on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbnav.apps.cli.arguments import JsonOption, KbOption, load
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.terminal import print_json

if TYPE_CHECKING:
    from kbnav.tools.notes import Notes

OutOption = Annotated[Path, typer.Option("--out", metavar="FILE", help="TOML file for what was found.")]
app = Commands("Notes and solved examples from runs with gold answers or opinions, and whether they help.")


def explore(
    out: OutOption,
    kb: KbOption = None,
    most: Annotated[int, typer.Option("--most", metavar="N", min=1, help="Properties and classes to look at.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Look for traps of a knowledge base before any question: hidden statements, mixed units, classes modelled twice.

    Rules and queries only, no model; what is found is written as notes, which --notes gives to an agent.
    """
    from kbnav.apps.console import printable
    from kbnav.knowledge.exploring import Explorer
    from kbnav.knowledge.open import open_kb
    from kbnav.tools.notes import write_notes

    settings = load(kb=kb)
    with open_kb(settings) as opened:
        explorer = Explorer(
            opened, most, f"kbnav explore --kb {settings.kb}", _today(), lambda line: _say(printable(line), as_json)
        )
        found = explorer.notes()
    write_notes(found, out)
    _told(found, out, f"{len(found.notes)} notes in {out}", as_json)


def runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of eval run, or kbnav opinions' output.")
    ],
    out: OutOption,
    least: Annotated[
        int, typer.Option("--least", metavar="N", min=1, help="Questions with the same mistake that make a note.")
    ] = 2,
    as_json: JsonOption = False,
) -> None:
    """Propose examples from right answers, and notes from mistakes that several questions share."""
    from kbnav.evaluation.learning import learn_opinions, learn_run
    from kbnav.evaluation.records import read_saved_run
    from kbnav.tools.notes import Notes, write_notes

    made = _today()
    found = [
        learn_run(read_saved_run(one), f"the run {one}", made, least) if one.is_dir() else learn_opinions(one, made)
        for one in folders
    ]
    both = Notes(tuple(n for one in found for n in one.notes), tuple(e for one in found for e in one.examples))
    write_notes(both, out)
    said = f"{len(both.notes)} notes and {len(both.examples)} examples in {out}; kbnav learn accept says if they help"
    _told(both, out, said, as_json)


def accept(
    file: Annotated[Path, typer.Argument(metavar="NOTES", help="File of kbnav learn or explore.")],
    without: Annotated[Path, typer.Option("--without", metavar="RUN", help="An evaluation without the notes.")],
    run: Annotated[Path, typer.Option("--with", metavar="RUN", help="The same questions with them (--notes).")],
    as_json: JsonOption = False,
) -> None:
    """Keep notes that do not make other questions worse, and switch them off where they do; the file says why."""
    from kbnav.evaluation.learning import accepted
    from kbnav.evaluation.records import read_saved_run
    from kbnav.tools.notes import read_notes, write_notes

    found, said = accepted(read_notes([file]), read_saved_run(without), read_saved_run(run), _today())
    write_notes(found, file)
    _told(found, file, said, as_json)


def _say(line: str, as_json: bool) -> None:
    if not as_json:
        print(line)


def _told(found: Notes, file: Path, said: str, as_json: bool) -> None:
    """A line for people; for programs all that the file has now."""
    if not as_json:
        print(said)
        return
    notes, examples = ([one.model_dump() for one in part] for part in (found.notes, found.examples))
    print_json({"file": str(file), "said": said, "notes": notes, "examples": examples})


def _today() -> str:
    from datetime import UTC, datetime

    return f"{datetime.now(UTC):%Y-%m-%d}"


app.add(runs, "from")
app.add(accept)
