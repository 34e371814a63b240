"""A shop whose questions use other words than its documents.

Thirty themes have words of documents and words of questions. Two goods are of each theme; what they cost and who made
them is noise. Only what has learned which words go together finds the answers.
"""

import csv
import json
import random
from pathlib import Path

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.training import data
from kbnav.training.data import Example

THEMES = 30
_SYLLABLES = ("ba", "do", "fi", "gu", "ka", "le", "mo", "nu", "pi", "ra", "so", "tu", "ve", "wi", "zo")
ASKED = ("Which good is about {}?", "I look for something with {}.", "Name goods of {}.", "What has to do with {}?")


def words(count: int, seed: int) -> list[str]:
    """So many made-up words, all different."""
    chance, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        found["".join(chance.choices(_SYLLABLES, k=3))] = None
    return list(found)


DOCUMENT, QUESTION = words(2 * THEMES, 1), words(4 * THEMES, 2)
QUESTION = [f"{word}x" for word in QUESTION]


def good(theme: int, copy: int) -> str:
    return f"g{theme}-{copy}"


def write_shop(folder: Path, more_edges: str = "") -> tuple[Path, Path]:
    with (folder / "nodes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "type", "name", "description"])
        for theme in range(THEMES):
            for copy in range(2):
                text = f"{DOCUMENT[2 * theme]} {DOCUMENT[2 * theme + 1]} for {copy + 1} coins"
                rows.writerow([good(theme, copy), "good", f"item {theme} {copy}", text])
        rows.writerows([f"m{number}", "maker", f"maker {number}", "makes goods"] for number in range(5))
    edges = [f"{good(theme, copy)},made_by,m{theme % 5}" for theme in range(THEMES) for copy in range(2)]
    (folder / "edges.csv").write_text("source,relation,target\n" + "\n".join(edges) + "\n" + more_edges)
    return folder / "nodes.csv", folder / "edges.csv"


def build_shop(folder: Path, name: str = "shop", more_edges: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = write_shop(folder, more_edges)
    build(TableSource([nodes], [edges]), folder / f"{name}.skb", Options(sparql=False))
    return folder / f"{name}.skb"


def questions(forms: range) -> list[tuple[str, str, tuple[str, str]]]:
    """Of each theme one question a form, with the two goods that answer it."""
    found = []
    for theme in range(THEMES):
        for form in forms:
            asked = QUESTION[4 * theme : 4 * theme + 4]
            text = ASKED[form % len(ASKED)].format(" ".join(random.Random(form).sample(asked, 2)))
            found.append((f"{theme}/{form}", text, (good(theme, 0), good(theme, 1))))
    return found


def examples(kb: SkbKB, forms: range) -> list[Example]:
    return data.examples(questions(forms), kb.skb)


def write_questions(path: Path, answers: tuple[str, ...] | None = None) -> Path:
    lines = [
        json.dumps({"id": name, "question": text, "nodes": list(answers if answers is not None else nodes)})
        for name, text, nodes in questions(range(2))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
