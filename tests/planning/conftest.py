"""A small graph of drugs, genes and diseases, on which every path can be counted by hand.

dA --treats--> x1 --associated--> g1 --part of--> p1
               x1 --associated--> g2 --part of--> p1
dB --treats--> x2 --associated--> g2
dA --binds---> g1, dA --blocks--> g1
g1 --ppi--> g2 and g2 --ppi--> g1: stored both ways
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from kbnav.encoders import Vectors, normalised
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import PathSchema

NODES = """id,type,name
dA,drug,Alphazol
dB,drug,Betamycin
x1,disease,gout
x2,disease,scurvy
g1,gene,ABC1
g2,gene,XYZ2
p1,pathway,citric cycle
"""
EDGES = """source,relation,target
dA,treats,x1
dB,treats,x2
x1,associated,g1
x1,associated,g2
x2,associated,g2
g1,part_of,p1
g2,part_of,p1
dA,binds,g1
dA,blocks,g1
g1,ppi,g2
g2,ppi,g1
"""


class Words:
    """An encoder for tests: a text's words, each with a number of its own."""

    name = "words"
    width = 64

    def encode(self, texts: Sequence[str]) -> Vectors:
        found = np.zeros((len(texts), self.width), np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.casefold()):
                found[row, sum(word.encode()) % self.width] += 1
        return normalised(found)


def built(folder: Path, nodes: str = NODES, edges: str = EDGES, name: str = "clinic") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "n.csv").write_text(nodes)
    (folder / "e.csv").write_text(edges)
    options = Options(vectors=False, sparql=False)
    build(TableSource([folder / "n.csv"], [folder / "e.csv"]), folder / f"{name}.skb", options)
    return folder / f"{name}.skb"


@pytest.fixture(scope="session")
def clinic_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("planning"))


@pytest.fixture(scope="session")
def clinic(clinic_folder: Path) -> Iterator[SKB]:
    with SKB.open(clinic_folder) as skb:
        yield skb


@pytest.fixture(scope="session")
def schema(clinic: SKB) -> PathSchema:
    return PathSchema.of(clinic)
