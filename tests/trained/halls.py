"""Rooms with doors of three colours, and a thing behind each: all have the same words, only the graph tells."""

import random
from pathlib import Path

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource

DOORS = ("red door", "blue door", "green door")
ROOMS = 60


def names() -> list[str]:
    chance = random.Random(5)
    found: dict[str, None] = {}
    while len(found) < ROOMS:
        found["".join(chance.choices("bdfgklmnprstvz", k=1)[0] + chance.choice("aeiou") for _ in range(4))] = None
    return list(found)


def halls(folder: Path, more: str = "") -> Path:
    """Each room has a door of every colour to a room; behind each is a shelf that holds one thing."""
    folder.mkdir(parents=True, exist_ok=True)
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
    (folder / "n.csv").write_text("id,type,name,description\n" + "\n".join(nodes) + "\n")
    (folder / "e.csv").write_text("source,relation,target\n" + "\n".join(edges) + "\n" + more)
    build(TableSource([folder / "n.csv"], [folder / "e.csv"]), folder / "halls.skb", Options(sparql=False))
    return folder / "halls.skb"
