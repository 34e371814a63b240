"""A shop whose questions use other words than its documents.

Thirty themes have words of documents and words of questions. Two goods are of each theme; what they cost and who made
them is noise. Only what has learned which words go together finds the answers.
"""

import json
import random
from pathlib import Path

from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.training import data
from kbnav.training.data import Example
from tests.knowledge.skb.sources import csv_skb

THEMES = 30
HEAD = "source,relation,target"
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


def build_shop(folder: Path, name: str = "shop", more_edges: str = "") -> Path:
    nodes, edges = ["id,type,name,description"], [HEAD]
    for theme in range(THEMES):
        for copy in range(2):
            text = f"{DOCUMENT[2 * theme]} {DOCUMENT[2 * theme + 1]} for {copy + 1} coins"
            nodes.append(f"{good(theme, copy)},good,item {theme} {copy},{text}")
            edges.append(f"{good(theme, copy)},made_by,m{theme % 5}")
    nodes += [f"m{number},maker,maker {number},makes goods" for number in range(5)]
    tables = "\n".join([*nodes, ""]), "\n".join([*edges, more_edges])
    return csv_skb(folder, *tables, name, Options(sparql=False))


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


DOORS = ("red door", "blue door", "green door")
ROOMS = 60


def names() -> list[str]:
    chance = random.Random(5)
    found: dict[str, None] = {}
    while len(found) < ROOMS:
        found["".join(chance.choices("bdfgklmnprstvz", k=1)[0] + chance.choice("aeiou") for _ in range(4))] = None
    return list(found)


def halls(folder: Path) -> Path:
    """Each room has a door of every colour to a room; behind each is a shelf that holds one thing."""
    rooms = names()
    nodes = [
        f"r{number},room,{name},a room with a red door a blue door and a green door"
        for number, name in enumerate(rooms)
    ]
    edges = []
    for number in range(ROOMS):
        for place, door in enumerate(DOORS):
            thing = f"t{number}-{place}"
            nodes.append(f"{thing},thing,thing,held by {rooms[number]}")
            edges.append(f"r{number},{door},{thing}")
    tables = ("\n".join([head, *rows, ""]) for head, rows in (("id,type,name,description", nodes), (HEAD, edges)))
    return csv_skb(folder, *tables, "halls", Options(sparql=False))
