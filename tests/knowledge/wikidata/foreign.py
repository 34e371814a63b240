"""The mini data as another Wikibase has it: under its own IRIs, with its own property numbers."""

from importlib.resources import files
from pathlib import Path

from pyoxigraph import NamedNode, Quad, RdfFormat, parse, serialize

from kbnav.knowledge.sparql.vocabulary import WIKIDATA
from kbnav.knowledge.wikidata.mirror.build import build_mirror

BASE = "https://kb.example/entity/"
NUMBERS = {"P31": "P1", "P279": "P2", "P106": "P3", "P21": "P4", "P61": "P5", "P1": "P31"}
_TOP, _OLD = BASE.removesuffix("entity/"), WIKIDATA.removesuffix("entity/")
_FOR_ALL = ("Q1985727", "Q1985786", "Q2", "Q199")


def foreign_triples() -> bytes:
    """N-Triples. Calendars, globes and the unit 1 are Wikidata's in every Wikibase."""
    quads = parse(files("kbnav").joinpath("data", "mini.ttl").read_bytes(), RdfFormat.TURTLE)
    triples = (Quad(_moved(one.subject), _moved(one.predicate), _moved(one.object)).triple for one in quads)
    return serialize(triples, format=RdfFormat.N_TRIPLES) or b""


def _moved(term):
    if not isinstance(term, NamedNode) or not term.value.startswith(_OLD) or "Special:" in term.value:
        return term
    head, _, name = term.value.rpartition("/")
    if name in _FOR_ALL and "/entity" in head:
        return term
    return NamedNode(head.replace(_OLD, _TOP) + "/" + NUMBERS.get(name, name))


def build_foreign(out: Path, *, concept_base: str = "") -> Path:
    source = out.parent / "foreign.nt"
    source.write_bytes(foreign_triples())
    build_mirror([source], out, concept_base=concept_base)
    return out
