"""Shapes that an endpoint publishes of its classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kbnav.knowledge.base import ClassShape, Entity, PropertyProfile, ShapeProperty
from kbnav.knowledge.endpoint.kb import EndpointKB
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings
from kbnav.tools.endpoint import shape_text, uses_text
from tests.knowledge.endpoint.served import Served, serving

DATA = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:a a ex:Protein ; rdfs:label "A" ; ex:mass 5 ; ex:part ex:b . ex:b a ex:Family ; rdfs:label "B" .
"""
VOID = """
@prefix ex: <http://example.org/> . @prefix void: <http://rdfs.org/ns/void#> . @prefix ext: <http://ldf.fi/void-ext#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<urn:d> void:classPartition [ void:class ex:Protein ; void:entities 200 ; void:propertyPartition
  [ void:property ex:mass ; void:triples 150 ; void:distinctSubjects 150 ;
    ext:datatypePartition [ ext:datatype xsd:integer ; void:triples 150 ] ] ,
  [ void:property ex:part ; void:triples 600 ; void:distinctSubjects 200 ;
    void:classPartition [ void:class ex:Family ; void:triples 590 ] , [ void:class ex:Clan ; void:triples 10 ] ] ] .
"""


@contextmanager
def opened(*data: str) -> Iterator[tuple[EndpointKB, Served]]:
    with serving(*data) as served, open_kb(Settings(kb=served.url, cache_age=0)) as kb:
        assert isinstance(kb, EndpointKB)
        yield kb, served


def test_counts_that_are_published_are_taken_and_nothing_is_scanned():
    with opened(DATA, VOID) as (kb, served):
        kb.classes()
        before = len(served.queries)
        shape = kb.class_shape("example:Protein")
        asked = served.queries[before:]
    assert (shape.published, shape.members) == (True, 200)
    assert [(one.property.id, one.have, one.most) for one in shape.properties] == [
        ("example:part", 200, 3),
        ("example:mass", 150, 1),
    ]
    assert [(one.entity.id, one.count) for one in shape.properties[0].ranges] == [
        ("example:Family", 590),
        ("example:Clan", 10),
    ]
    assert not [query for query in asked if "?s a <http://example.org/Protein>" in query]
    text = shape_text(shape)
    assert "200 direct members" in text
    assert "mass (example:mass): 75 %" in text


def test_a_class_without_a_published_shape_is_looked_at():
    with opened(DATA, VOID) as (kb, _):
        shape = kb.class_shape("example:Family")
    assert (shape.published, shape.members) == (False, 1)


@pytest.mark.parametrize(
    ("have", "told"),
    [(1000, "all"), (999, "999 of 1,000"), (996, "996 of 1,000"), (990, "99 %"), (3, "3 of 1,000"), (500, "50 %")],
)
def test_nearly_all_cannot_be_taken_for_all(have: int, told: str):
    one = ShapeProperty(Entity("ex:p", "p"), have)
    shape = ClassShape(Entity("ex:C", "C"), 1000, 0, 20_000, 1000, (one,))
    assert shape_text(shape).splitlines()[1] == f"  p (ex:p): {told}"


def test_values_a_subject_are_told_only_where_all_were_counted():
    whole, part = (PropertyProfile(count, 0, 20_000, 1000, 500) for count in (1000, 1938))
    assert "Each subject has 2 of them in the mean." in uses_text(whole, "ex:p")
    assert "mean" not in uses_text(part, "ex:p")
