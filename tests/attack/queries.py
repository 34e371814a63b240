"""Queries that would change data, or reach out of the knowledge base, each written to slip past a reader of text."""

from collections.abc import Iterator
from itertools import product

LABEL = "<http://wikiba.se/ontology#label>"


def hostile(place: str) -> list[str]:
    """Over 200 different queries; ``place`` is a URL that must never be asked for."""
    return list(
        dict.fromkeys([*_services(f"<{place}>"), *_datasets(f"<{place}>"), *_updates(f"<{place}>"), *_odd(place)])
    )


def _services(place: str) -> Iterator[str]:
    calls = [
        f"SERVICE {place} {{ ?s ?p ?o }}",
        f"service{place}{{ ?s ?p ?o }}",
        f"SeRvIcE\tSILENT\n{place} {{ ?s ?p ?o }}",
        f"SERVICE#\n{place} {{ ?s ?p ?o }}",
        f"SERVICE # {LABEL}\n{place} {{ ?s ?p ?o }}",
        f"SERVICE SILENT#}}\r{place} {{ ?s ?p ?o }}",
        f"trueSERVICE {place} {{ ?s ?p ?o }}",
        "SERVICE ?anywhere { ?s ?p ?o }",
        "SERVICE $anywhere { ?s ?p ?o }",
        "SERVICE x:y { ?s ?p ?o }",
        "SERVICEx:y { ?s ?p ?o }",
        "SERVICE wikibase:labels { ?s ?p ?o }",
        "SERVICE { ?s ?p ?o }",
        "SERVICE SILENT { ?s ?p ?o }",
        "\\u0053ERVICE " + place + " { ?s ?p ?o }",
        "SERV\\u0049CE " + place + " { ?s ?p ?o }",
        "\\U00000053ERVICE " + place + " { ?s ?p ?o }",
        "SERVICE \\u003C" + place[1:] + " { ?s ?p ?o }",
        f"SERVICE {LABEL[:-1]}\\u003E {place} {{ ?s ?p ?o }}",
        f"SERVICE {LABEL} {{ SERVICE {place} {{ ?s ?p ?o }} }}",
        f"SERVICE {LABEL} {{ bd:serviceParam wikibase:language 'en' }} SERVICE {place} {{ }}",
    ]
    wraps = [
        "SELECT * {{ {} }}",
        "PREFIX x: " + place[:-1] + "#> SELECT * WHERE {{ ?a ?b ?c . {} }}",
        "SELECT * {{ OPTIONAL {{ {} }} }}",
        "SELECT * {{ {{ SELECT * {{ {} }} }} UNION {{ ?a ?b ?c }} }}",
        "ASK {{ FILTER NOT EXISTS {{ {} }} }}",
        "CONSTRUCT {{ ?s ?p ?o }} WHERE {{ MINUS {{ {} }} }}",
    ]
    yield from (wrap.format(call) for call, wrap in product(calls, wraps))


def _datasets(place: str) -> Iterator[str]:
    for clause in (
        f"FROM {place}", f"from{place}", f"FROM NAMED {place}", f"FROM#\n{place}", f"FROMNAMED {place}",
        f"FROM\u0020NAMED{place}", "FROMx:y", f"fRoM\r\n{place}", "FR\\u004FM " + place,
    ):  # fmt: skip
        yield f"PREFIX x: {place} SELECT * {clause} WHERE {{ ?s ?p ?o }}"
        yield f"SELECT ?s {clause} {{ ?s ?p ?o }}"
        yield f"ASK {clause} {{ ?s ?p ?o }}"


def _updates(place: str) -> Iterator[str]:
    for update in (
        "INSERT DATA { <a:a> <a:b> <a:c> }", "DELETE WHERE { ?s ?p ?o }", "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
        f"LOAD {place}", f"LOAD SILENT {place} INTO GRAPH <a:g>", "CLEAR ALL", "DROP ALL", "CREATE GRAPH <a:g>",
        "ADD DEFAULT TO <a:g>", "MOVE <a:g> TO DEFAULT", "COPY <a:g> TO DEFAULT",
        "WITH <a:g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "INSERT { ?s ?p 1 } WHERE { ?s ?p ?o }",
    ):  # fmt: skip
        yield update
        yield f"# SELECT\n{update}"
        yield f"PREFIX x: <a:x> {update}"
        yield f"BASE <a:x> {update}"
        yield f"{update} ; SELECT * {{ ?s ?p ?o }}"
        yield f"SELECT * {{ ?s ?p ?o }} ; {update}"
        yield update.replace("E", "\\u0045", 1).replace("A", "\\u0041", 1)


def _odd(place: str) -> Iterator[str]:
    """Ways in which the text that is checked may not be the text that is run."""
    service = f"SERVICE <{place}> {{ ?s ?p ?o }}"
    yield f"PREFIXwikibase: <{place}#> SELECT * {{ SERVICE wikibase:label {{ ?s ?p ?o }} }}"
    yield f"prefixwikibase:<{place}#>SELECT * {{ SERVICE wikibase:label {{ ?s ?p ?o }} }}"
    yield f"PREFIX wikibase: <{place}#> SELECT * {{ SERVICE wikibase:label {{ ?s ?p ?o }} }}"
    yield f"PREFIX wikibase:<{place}#>PREFIX bd:<a:b>SELECT * {{ SERVICE wikibase:label {{ ?s ?p ?o }} }}"
    yield f"PREFIX#\nwikibase: <{place}#> SELECT * {{ SERVICE wikibase:label {{ ?s ?p ?o }} }}"
    yield f"BASE <{place}> SELECT * {{ SERVICE <#label> {{ ?s ?p ?o }} }}"
    yield f"BASE<{place}/> SELECT * {{ SERVICE <x> {{ ?s ?p ?o }} }}"
    yield f"SELECT * {{ ?s ?p 'a\\\\' . {service} # ' }}"
    yield f"SELECT * {{ ?s ?p 'a'@en#\n . {service} }}"
    yield f"SELECT * {{ ?s ?p '''a'b''' . {service} }}"
    yield f'SELECT * {{ ?s ?p """a""b""" . {service} }}'
    yield f"SELECT * {{ ?s <a:#> ?o . {service} }}"
    yield f"SELECT * {{ ?s <a:b>#>\n ?o . {service} }}"
    yield f"SELECT * {{ FILTER(?a <?b) {service} FILTER(?c> ?d) }}"
    yield f"SELECT (1<2 AS ?x) {{ {service} FILTER(3>2) }}"
    yield f"SELECT * {{ ?s ?p ?o\f. {service} }}"
    yield f"SELECT * {{ ?s ?p ?o\u00a0. {service} }}"
    yield f"SELECT * {{ ?s ?p ?o\u2028. {service} }}"
    yield f"\ufeffSELECT * {{ {service} }}"
    yield f"SELECT * {{ ?s ?p ?o }}\u0000{service}"
    yield f"SELECT * {{ # \u2028 {service}\n {service} }}"
    yield f"SELECT * {{ # \u0085 \x0b\n {service} }}"
    yield f"DESCRIBE ?s {{ {service} }}"
    yield f"DESCRIBE <{place}> FROM <{place}>"
    yield f"SELECT * WITH {{ SELECT * {{ {service} }} }} AS %x {{ INCLUDE %x }}"
    yield f"SELECT * {{ GRAPH <{place}> {{ {service} }} }}"
    yield f"SELECT * {{ VALUES ?x {{ 1 }} {service} }}"
    yield f"SELECT * {{ BIND(EXISTS {{ {service} }} AS ?x) }}"
    yield f"PREFIX e: <{place}> ASK {{ ?x ?y true SERVICEe:x {{ ?x ?y ?z }} }}"
    yield f"ASK {{ ?x ?y 1 SERVICESILENT<{place}> {{ ?x ?y ?z }} }}"
    yield "ASK { ?x ?y ?z FILTER(?x<?y).SERVICE?s#>\n{ ?x ?y ?z } }"
    yield "ASK { ?x ?y ?z FILTER(?x<'>') SERVICE ?s { ?x ?y ?z } #'\n}"
    yield f'ASK {{ ?x ?y "\\u0022 . {service} #" }}'
    yield f"ASK {{ ?x ?y ?z # \\u000a {service}\n }}"
    yield f"PREFIX e: <{place}> SELECT (1 AS ?n)FROMe:x {{ ?x ?y ?z }}"
    yield f"PREFIX frome: <{place}> DESCRIBE wd:Q1 # FROM\nFrom<{place}>"


HARMLESS = (
    "SELECT * { ?s ?p 'SERVICE <http://a/> { }' } LIMIT 1",
    "SELECT * { ?s ?p ?o } LIMIT 1 # INSERT DATA { }",
    "PREFIX prefixx: <http://a/> BASE <http://b/> SELECT * { ?s ?p ?o } LIMIT 1",
    "ASK { ?s <http://example.org/INSERT/FROM/SERVICE> ?o }",
    "SELECT ?insert ?from { ?insert ?service ?from } LIMIT 1",
    "PREFIX from: <urn:b> SELECT ?from { ?from from:x 'FROM <a:b>' ; from:INSERT <a:b#FROM> }",
    "PREFIX x: <urn:b> SELECT * { ?s x:LOAD '''\n} ; DROP ALL #''', x:delete }",
    'SELECT * { ?s ?p """DROP ALL ; LOAD <http://a/>""" } LIMIT 1',
    "SELECT * { ?s ?p ?o FILTER(?o != 'it\\'s FROM') } LIMIT 1",
)
"""Queries that hold the same words where they mean nothing."""
