"""How long the system prompts and tool descriptions of the graph agents are, in characters, for the SKBs given.

    python -m benchmarks.prompt_sizes [KB ...]
    python -m benchmarks.prompt_sizes --links 21 KB

With ``--links``: what the call costs that asks which 10 of so many links to keep, and what it saves each later turn.

KB is a folder, or ``demo``. ``wide`` is an SKB made for this: 40 node types, and 228 kinds of links between them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from kbnav.agents.gog import gog_with
from kbnav.agents.pasemiqa import pasemiqa_with
from kbnav.agents.skb import skb_with
from kbnav.knowledge.open import open_kb
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB, as_skb
from kbnav.knowledge.skb.store import SKB
from kbnav.models.scripted import ScriptedModel
from kbnav.runs.trajectory import Usage
from kbnav.sessions.session import ask
from kbnav.settings.model import Settings, load_settings
from kbnav.tools.context import Context, Shown
from kbnav.tools.prune import prune_by_ranking
from kbnav.tools.walking import WalkingTools

QUESTION = "Which of these was made by the person who taught at the school, and where does it stand?"
TYPES, KINDS = 40, 228


def wide(folder: Path) -> SkbKB:
    """An SKB with as many types and kinds of links as graphs from Wikidata have."""
    names = [f"type of thing number {number}" for number in range(TYPES)]
    nodes = [
        {"id": f"{kind}-{n}", "type": name, "name": f"A thing of type {kind}, the {n}. one"}
        for kind, name in enumerate(names)
        for n in range(3)
    ]
    edges = [f"{k % TYPES}-0\tlinked to by way {k}\t{(k * 7 + 3) % TYPES}-1" for k in range(KINDS)]
    (folder / "n.jsonl").write_text("\n".join(map(json.dumps, nodes)))
    (folder / "e.tsv").write_text("\n".join(["source\trelation\ttarget", *edges]))
    build(TableSource([folder / "n.jsonl"], [folder / "e.tsv"]), folder / "wide.skb", Options(vectors=False))
    return SkbKB(SKB.open(folder / "wide.skb"))


def system_prompts(kb: SkbKB, home: Path) -> dict[str, tuple[int, int]]:
    """Characters of the system prompt and of the tools' descriptions, by agent."""

    def silent(prompt: str, purpose: str, **_: object) -> tuple[str, Usage]:  # noqa: ARG001 - an Ask
        return "", Usage()

    settings = Settings(home=home, model="scripted", budget={"steps": 2})  # type: ignore[arg-type]
    found = {}
    for name in ("skb", "pasemiqa", "gog"):
        model = ScriptedModel(replies=[])
        agent = {
            "skb": lambda model=model: skb_with(model, None, kb, settings),
            "pasemiqa": lambda model=model: pasemiqa_with(model, silent, None, kb, settings),
            "gog": lambda model=model: gog_with(model, silent, None, kb, settings),
        }[name]()
        ask(agent, QUESTION)
        found[name] = len(str(model.seen[0][0].text)), len(json.dumps(agent.tools.schemas, ensure_ascii=False))
    return found


def prune_call(kb: SkbKB, links: int, keep: int = 10) -> tuple[int, int]:
    """Characters of the call that keeps ``keep`` links of a node that has ``links``, and of the lines it leaves out."""
    node = next(n for n in range(len(kb.skb.nodes)) if kb.skb.graph.degree(n) == links)
    prompts: list[str] = []

    def first(prompt: str, purpose: str, **_: object) -> tuple[str, Usage]:  # noqa: ARG001 - an Ask
        prompts.append(prompt)
        return ", ".join(map(str, range(1, keep + 1))), Usage()

    context = Context(kb, QUESTION, "en", prune_by_ranking(Shown()))
    some, every = (
        WalkingTools(first, keep, short).search_neighbors(context, "why", kb.skb.id(node)).text for short in (0, links)
    )
    return len(prompts[0]), len(every) - len(some)


def main() -> None:
    """A line for each SKB and agent."""
    if sys.argv[1:2] == ["--links"]:
        with open_kb(load_settings(kb=sys.argv[3])) as kb:
            cost, saved = prune_call(as_skb(kb, "this benchmark"), int(sys.argv[2]))
        print(f"{sys.argv[2]} links: the call has {cost:,} characters, and saves {saved:,} in each later turn")
        return
    names = sys.argv[1:] or ["wide", "demo"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            home = Path(folder)
            opened = closing(wide(home)) if name == "wide" else open_kb(load_settings(kb=name, home=home))
            with opened as kb:
                for agent, (prompt, tools) in system_prompts(as_skb(kb, "this benchmark"), home).items():
                    print(f"{Path(name).name:16} {agent:10} system prompt {prompt:6,}   tools {tools:6,}")


if __name__ == "__main__":
    main()
