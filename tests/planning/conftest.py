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
from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import PathSchema
from tests.knowledge.skb.sources import csv_skb

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
    return csv_skb(folder, nodes, edges, name, Options(vectors=False, sparql=False))


@pytest.fixture(scope="session")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SKB]:
    with SKB.open(built(tmp_path_factory.mktemp("planning"))) as skb:
        yield skb


@pytest.fixture(scope="session")
def schema(clinic: SKB) -> PathSchema:
    return PathSchema.of(clinic)
