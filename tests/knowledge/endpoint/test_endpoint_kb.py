"""A SPARQL endpoint as a knowledge base: found by its URL, and asked through the protocol's calls."""

import re

import pytest

from kbnav.errors import CredentialsError, QuerySyntaxError, UnknownId, UsageError
from kbnav.knowledge.base import Meter, counted_by
from kbnav.knowledge.checking import check_kb
from kbnav.knowledge.endpoint.data import LABELS
from kbnav.knowledge.open import open_kb
from kbnav.settings.model import Settings
from kbnav.settings.systems import kb_kind
from kbnav.tools.context import Shown
from kbnav.tools.endpoint import shapes_for
from tests.knowledge.endpoint.served import serving

SUPPLIER = "<http://shop.example/data/s9>"


def test_a_url_that_is_no_wikibase_is_an_endpoint_after_one_request(served, tmp_path):
    with open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        assert kb_kind(kb) == "sparql"
        assert served.requests == [("/w/api.php", "")]


def test_a_thing_is_found_by_its_whole_name_and_by_a_part_of_it(company):
    [lamp] = company.search_entities("desk lamp 12").entities
    assert (lamp.id, lamp.label, lamp.description) == ("data:p1", "Desk Lamp 12", "Lamp")
    assert [one.id for one in company.search_entities("screwdrivers").entities] == ["data:p3"]
    found = company.search_entities("Floor Lamps from Peru")
    assert (found.rung, found.matched, found.dropped) == ("shorter", "floor lamp", "from peru")
    assert [one.id for one in found.entities] == ["data:p2"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [("Scrwdriver", "data:p3"), ("Screwdr", "data:p3"), ("driver", "data:p3"), ("s3", "data:s3")],
    ids=["spelling", "beginning of a word", "part of a compound", "part of an IRI"],
)
def test_what_is_not_so_written_is_offered_as_near(company, asked, found):
    result = company.search_entities(asked)
    assert (result.rung, [one.id for one in result.entities]) == ("near", [found])


def test_classes_and_properties_are_found_by_name_with_what_is_declared_of_them(company):
    found = company.search_entities("suppliers")
    assert [(one.id, one.kind, one.description) for one in found.entities] == [
        ("shop:Supplier", "class", "class; 3 members")
    ]
    [relation] = found.properties
    assert relation.id == "shop:hasSupplier"
    assert relation.description == "4 uses; domain: shop:Product; range: shop:Supplier"
    weight = company.search_entities("weight", kind="property")
    assert [one.label for one in weight.properties] == ["weight g"]


def test_labels_come_in_the_asked_language_or_the_next_best(company):
    german = company.labels(["data:p1", "data:p2", "shop:Supplier", "data:s3"], language="de")
    assert german == {"data:p1": "Schreibtischlampe 12", "data:p2": "Floor Lamp", "shop:Supplier": "Lieferant"}


def test_an_entry_shows_what_is_said_of_nodes_without_a_name(company):
    entry = company.get_entry("data:p1")
    price = next(one for one in entry.statements if one.property.id == "shop:price")
    assert {(one.property.id, one.value.text) for one in price.qualifiers} == {
        ("shop:amount", "19.5"),
        ("shop:currency", "EUR"),
    }
    assert entry.aliases == ("Study Light",)
    supplier = next(one.value for one in entry.statements if one.property.id == "shop:hasSupplier")
    assert (supplier.id, supplier.text) == ("data:s1", "Lumen & Söhne")


@pytest.mark.parametrize("one", ["data:p1", "<http://shop.example/data/p1>", "http://shop.example/data/p1"])
def test_an_id_may_be_written_in_three_ways(company, one):
    assert company.search_neighbors(one, direction="in").edges[0].neighbor.text == "Screwdriver Set"


@pytest.mark.parametrize(("stated", "asked"), [("M%C3%BCller", "Müller"), ("Müller", "M%C3%BCller")])
def test_letters_of_an_id_may_be_percent_encoded_or_not(served, company, stated, asked):
    served.store.update(f"INSERT DATA {{ <http://shop.example/data/{stated}> <http://shop.example/vocab/country> 1 }}")
    assert company.get_entry(f"<http://shop.example/data/{asked}>").entity.id.endswith((stated, f"{stated}>"))


@pytest.mark.parametrize("one", ["p1", "nowhere:p1", "data:p99", SUPPLIER, "<http://x y>", "<http://x/ä>"])
def test_what_is_no_id_or_not_there_is_told(company, one):
    with pytest.raises(UnknownId, match=r"(?i)search"):
        company.get_entry(one)


def test_a_query_needs_no_prefixes_and_its_things_are_named(company):
    table = company.execute_query("SELECT ?s ?n { ?s shop:country ?n } ORDER BY ?n ?s LIMIT 1")
    [(thing, country)] = table.rows
    assert table.entity(thing) == "data:s1"
    assert table.label(thing) == "Lumen & Söhne"
    assert table.records() == [{"s": "http://shop.example/data/s1", "sLabel": "Lumen & Söhne", "n": country.value}]
    declared = company.declared("SELECT * { ?s shop:country ?n }")
    assert declared == "PREFIX shop: <http://shop.example/vocab/>\nSELECT * { ?s shop:country ?n }"


def test_every_request_of_a_question_is_counted(company, served):
    company.search_entities("supplier")  # what is asked once for all questions
    meter, before = Meter(), len(served.queries)
    with counted_by(meter):
        company.get_entry("data:s1")
        company.search_neighbors("data:s1")
        company.get_property_examples("shop:country")
    sent = len(served.queries) - before
    assert sent > 3
    assert meter.sent == {"sparql": sent}


def test_an_error_points_into_the_query_as_it_was_written(company, served):
    with pytest.raises(QuerySyntaxError, match="line 1, column 35") as caught:
        company.execute_query("SELECT ?s { ?s shop:country ?n ?x }")
    with pytest.raises(QuerySyntaxError, match=r"use one of (?!wd).*shop"):
        company.execute_query("SELECT ?s { ?s nowhere:country ?n }")
    assert (caught.value.line, caught.value.column) == (1, 35)
    assert not any("?n ?x" in query for query in served.queries)


def test_the_shape_of_a_class_is_worked_out_from_its_members(company):
    shape = company.class_shape("shop:Product")
    assert (shape.members, shape.below, [one.entity.id for one in shape.subclasses]) == (1, 2, ["shop:Lamp"])
    lamps = company.class_shape("shop:Lamp")
    supplier = next(one for one in lamps.properties if one.property.id == "shop:hasSupplier")
    assert (supplier.have, supplier.most) == (2, 2)
    assert [(one.entity.id, one.count) for one in supplier.ranges] == [("shop:Supplier", 3)]
    weight = next(one for one in lamps.properties if one.property.id == "shop:weight_g")
    assert [one.entity.id for one in weight.ranges] == ["xsd:integer"]
    [(share, source)] = lamps.incoming
    assert (share.entity.id, share.count, source.id) == ("shop:fits", 1, "shop:Product")


STAFF = """
@prefix : <http://staff.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Boss rdfs:subClassOf :Worker .
:a a :Worker ; :name "Ada" ; :room 4 ; :knows :b , :c ; :boss :e ; :areaOfExpertise :x .
:b a :Worker ; :name "Bea" ; :room 9 ; :knows :a ; :boss :e .
:c a :Worker ; :name "Cem" ; :room 5 ; :knows :a .
:e a :Boss ; :name "Eva" ; :room 1 .
[] :inspects :a .
"""


def test_a_prompt_shows_values_members_symmetric_links_and_the_kinds_of_things(tmp_path):
    with serving(STAFF) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        worker, boss = shapes_for(kb, "Which worker is a boss?", "en", Shown()).split("\n\n")[1:3]
        assert "share of these that has each" in worker
        assert "all of them: Ada (staff:a); Bea (staff:b); Cem (staff:c)" in worker
        assert re.search(r"name \(staff:name\): all; string \(xsd:string\), as (Ada|Bea|Cem)", worker)
        assert "room (staff:room): all; integer (xsd:integer) 4 to 9, middle 5" in worker
        assert "knows (staff:knows): all, up to 2 each; worker (staff:Worker), both ways" in worker
        assert "^knows" not in worker
        assert "comes in once from things of no class here" in worker
        # What the two have alike is told once: Eva has a name and a room too.
        assert "as worker (staff:Worker)" not in boss  # most properties differ
        assert "^boss (staff:boss): comes in 2 times from worker (staff:Worker)" in boss
        # A property is found by half of its name where no class is named.
        assert "staff:Worker) 100 %; values are things of no class here 100 %" in shapes_for(
            kb, "Who are the experts?", "en", Shown()
        )


def test_a_class_like_another_is_told_by_what_differs_and_a_sample_is_marked(tmp_path):
    lines = ["@prefix : <http://shop.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."]
    lines += [":Pump rdfs:subClassOf :Product ."]
    lines += [f':p{n} a :Pump ; :name "n{n}" ; :weight {n} ; :price {n} ; :maker :m .' for n in range(1003)]
    lines += [':q a :Product ; :name "q" ; :weight 7 ; :price 8 ; :maker :m ; :colour "red" .']
    lines += [f":s{n} :sells :p{n} ." for n in range(1003)]
    with serving("\n".join(lines)) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        pump, product = shapes_for(kb, "Which pump is a product?", "en", Shown()).split("\n\n")[1:3]
        assert "1,003 direct members; properties, with the share of the first 1,000 that has each" in pump
        assert "comes in 1,000 times to the first 1,000 from" in pump
        assert product.splitlines()[-2:] == [
            "  as pump (shop:Pump), but:",
            "  colour (shop:colour): all; string (xsd:string), as red",
        ]


def test_a_part_of_an_iri_finds_what_has_no_such_label_also_beside_an_index(tmp_path):
    label = f"<{LABELS[0]}>"
    employee = (
        f"<urn:v:Employee> {label} 'Employee' . <urn:empl-Karen.Brant> a <urn:v:Employee> ; {label} 'Ms. Brant' ."
    )
    with serving(employee) as served:
        for index in ("", str(tmp_path / "names")):
            source = {"url": served.url, "index": index}
            with open_kb(Settings(kb="here", sparql={"here": source}, home=tmp_path)) as kb:
                found = kb.search_entities("empl-karen")
                assert (found.rung, [one.label for one in found.entities]) == ("near", ["Employee", "Ms. Brant"])
                if not index:
                    kb.index_names(tmp_path / "names", lambda names, last: None)


def test_a_thing_of_just_that_name_comes_before_a_class_that_is_only_like_it(tmp_path):
    with (
        serving(
            "@prefix : <http://shop.example/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> ."
            ':Service rdfs:label "Service" . :a a :Service . :d a :Unit ; rdfs:label "Data Services" .'
        ) as served,
        open_kb(Settings(kb=served.url, home=tmp_path)) as kb,
    ):
        assert [one.label for one in kb.search_entities("Data Services").entities] == ["Data Services", "Service"]


def test_a_property_is_told_by_examples_and_counts(company):
    used = {(one.subject.id, one.value.id) for one in company.get_property_examples("shop:hasSupplier")}
    assert used == {("data:p1", "data:s1"), ("data:p2", "data:s1"), ("data:p2", "data:s2"), ("data:p3", "data:s2")}
    profile = company.property_profile("shop:hasSupplier")
    assert (profile.direct, profile.subjects) == (4, 3)
    assert [(one.entity.id, one.count) for one in profile.value_classes] == [("shop:Supplier", 4)]


def test_a_named_endpoint_has_its_own_prefixes_graphs_and_labels(tmp_path):
    trig = """@prefix v: <http://shop.example/vocab/> .
    <http://shop.example/g1> { <urn:a:1> v:called "One" . } <http://shop.example/g2> { <urn:a:2> v:called "Two" . }
    <http://shop.example/g3> { <urn:a:3> v:called "Three" . }"""
    with serving(trig) as served:
        source = {
            "url": served.url,
            "graph": ["http://shop.example/g2", "http://shop.example/g3"],
            "prefixes": {"a": "urn:a:"},
            "labels": ["http://shop.example/vocab/called"],
        }
        with open_kb(Settings(kb="shop", sparql={"shop": source}, home=tmp_path)) as kb:
            assert kb.labels(["a:1", "a:2", "a:3"]) == {"a:2": "Two", "a:3": "Three"}
            assert [one.id for one in kb.search_entities("two").entities] == ["a:2"]
        assert "/w/api.php" not in {path for path, _ in served.requests}


def test_credentials_come_from_the_environment(served, tmp_path):
    source = {"url": served.url, "credentials_variable": "SHOP"}
    settings = Settings(kb="shop", sparql={"shop": source}, home=tmp_path)
    with pytest.raises(CredentialsError, match="SHOP"), open_kb(settings):
        pass


@pytest.mark.parametrize(("own", "named"), [({}, "credentials_variable"), ({"credentials_variable": "SHOP"}, "SHOP")])
def test_a_refusal_names_the_variable_to_set(served, tmp_path, monkeypatch, own, named):
    monkeypatch.setenv("SHOP", "old")
    served.refuse = lambda query: (401, "Unauthorized")
    settings = Settings(kb="shop", sparql={"shop": {"url": served.url, **own}}, home=tmp_path)
    with open_kb(settings) as kb:
        for call in (lambda: kb.search_entities("lamp"), lambda: kb.execute_query("SELECT * { ?s ?p ?o }")):
            with pytest.raises(CredentialsError, match=named):
                call()
        assert [one.remedy for one in check_kb(kb, settings)] == [""]


@pytest.mark.parametrize("kb", ["x", "https://ann:secret@host.example", "https://ann:secret@host.example/sparql"])
def test_an_address_may_hold_no_password(tmp_path, kb):
    sparql = {"x": {"url": "https://ann:secret@host.example/sparql"}}
    with (
        pytest.raises(UsageError, match="credentials_variable") as caught,
        open_kb(Settings(kb=kb, sparql=sparql, home=tmp_path)),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_an_endpoint_that_takes_get_alone_works(served, tmp_path):
    served.get_only = True
    served.refuse = lambda query: (414, "URI Too Long") if len(query) > 3_000 else None
    with open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        assert [one.id for one in kb.search_entities("desk lamp 12").entities] == ["data:p1"]
        many = [f"<http://shop.example/data/p{place}>" for place in range(200)]
        assert kb.labels(many)[many[1]] == "Desk Lamp 12"
        assert kb.execute_query("SELECT ?p { ?p a shop:Lamp }").rows


RDFS = "http://www.w3.org/2000/01/rdf-schema#"


@pytest.mark.parametrize("vocabulary", ["", 'v:Person rdfs:label "Person" . v:Werk rdfs:label "Werk" .'])
def test_of_each_class_without_known_labels_the_texts_that_look_like_names_are_its_labels(tmp_path, vocabulary):
    things = "".join(
        f'd:{n} a v:Person ; v:bezeichnung "Schulz, Max ({n})" ; v:note "a long story {"of many words " * 9}{n}" ; '
        f'v:group "A" ; v:size {n} . d:w{n} a v:Werk ; v:titel "Das Haus, Band {n}"@de . [] a v:Mass ; v:size {n} .\n'
        for n in range(9)
    )
    prefixes = f"@prefix v: <http://v.example/> . @prefix d: <http://d.example/> . @prefix rdfs: <{RDFS}> ."
    with serving(prefixes + things + vocabulary) as served, open_kb(Settings(kb=served.url, home=tmp_path)) as kb:
        assert kb.get_entry("d:4").entity.label == "Schulz, Max (4)"
        assert [one.id for one in kb.search_entities("Schulz, Max (7)").entities] == ["d:7"]
        assert kb.labels(["d:w3"]) == {"d:w3": "Das Haus, Band 3"}
        assert kb.nameless() == []
