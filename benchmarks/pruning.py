"""Entries cut by ranking beside the same entries as the paper's model cut them, in the published runs on QALD-10.

    python -m benchmarks.pruning --mirror MIRROR [--data ../shared/data]

What matters is whether the properties stay that the run's final query uses. Counted are, over the recorded look-ups of
entities whose page on the mirror has such a property: how many of them each way kept, and how many properties it kept.
A model's choices are read from the recorded observation; the live entity had properties that the mirror lacks.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections import Counter
from pathlib import Path

from benchmarks.replay_spinach_runs import recorded_runs

from kbnav.errors import TellModel
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import load_settings
from kbnav.tools.context import Shown, prune_by_ranking


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--mirror", required=True, help="folder of a mirror of the slice")
    chosen = parser.parse_args()
    prune, counts = prune_by_ranking(Shown()), Counter[str]()
    with tempfile.TemporaryDirectory() as home:
        settings = load_settings(kb=chosen.mirror, model="offline", language="en", home=Path(home))
        with open_kb(settings) as kb:
            for run in recorded_runs(chosen.data):
                used = set(re.findall(r"\bP\d+\b", (run.get("final_sparql") or {}).get("sparql", "")))
                for action in run["actions"]:
                    if action["action_name"] != "get_wikidata_entry":
                        continue
                    try:
                        entry = kb.get_entry(action["action_argument"].strip())
                    except TellModel:
                        continue
                    there = {one.property.id for one in entry.statements}
                    if not used & there:
                        continue
                    ranked = {one.property.id for one in prune(entry, run["question"])[0].statements}
                    by_model = set(re.findall(r'^\s*"[^"\n]*\((P\d+)\)"', action["observation"] or "", re.MULTILINE))
                    counts["entries"] += 1
                    counts["properties of the final query that they have"] += len(used & there)
                    counts["  of these, kept by ranking"] += len(used & ranked)
                    counts["  of these, kept by the paper's model"] += len(used & there & by_model)
                    counts["properties kept by ranking"] += len(ranked)
                    counts["properties kept by the paper's model, of those on the mirror"] += len(by_model & there)
    for name, number in counts.items():
        print(f"{number:6}  {name}")


if __name__ == "__main__":
    main()
