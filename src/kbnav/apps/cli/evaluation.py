"""``kbnav eval``: the group of commands that run, score and compare."""

from __future__ import annotations

from kbnav.apps.cli import analyses, calibrate, datasets, evaluate, people, scores, viewing
from kbnav.apps.cli.help import Commands
from kbnav.apps.cli.synthesis import synthesize

app = Commands("Run systems over benchmark questions, score them, compare them.")
app.add(evaluate.run)
app.add(scores.score)
app.add(scores.compare)
app.add(scores.report)
app.add(analyses.table)
app.add(viewing.view)
app.add(analyses.power)
app.add(analyses.errors)
app.add(calibrate.calibrate)
app.add(evaluate.ablate)
app.add(evaluate.sweep)
datasets.app.add(analyses.threads)
datasets.app.add(people.pairs)
app.add_typer(datasets.app, name="dataset")
app.add(datasets.freeze)
app.add(scores.replay)
app.add(synthesize)
app.add(people.collect)
app.add(people.judge)
app.add(scores.import_, "import")
