"""A Wikibase in which lengths are in two units, and some statements are hidden."""


def statement(number: int, unit: str, *, direct: bool) -> list[str]:
    """A length of an item, in a unit, that the direct predicate may not reach."""
    wd, ont, node = "http://www.wikidata.org", "http://wikiba.se/ontology#", f"{number}-{unit}"
    item = f"<{wd}/entity/Q{1000 + number}>"
    made, value = f"<{wd}/entity/statement/Q{node}>", f"<{wd}/value/{node}>"
    amount = f'"{number}"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    rdf = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    lines = [
        f"{item} <{wd}/prop/P2043> {made} .",
        f"{made} {rdf} <{ont}Statement> .",
        f"{made} <{ont}rank> <{ont}NormalRank> .",
        f"{made} <{wd}/prop/statement/P2043> {amount} .",
        f"{made} <{wd}/prop/statement/value/P2043> {value} .",
        f"{value} <{ont}quantityAmount> {amount} .",
        f"{value} <{ont}quantityUnit> <{wd}/entity/{unit}> .",
    ]
    return [*lines, *([f"{item} <{wd}/prop/direct/P2043> {amount} ."] if direct else [])]


def property_lines() -> list[str]:
    """What a Wikibase says of its property."""
    wd, ont = "http://www.wikidata.org", "http://wikiba.se/ontology#"
    return [
        f'<{wd}/entity/P2043> <http://www.w3.org/2000/01/rdf-schema#label> "length"@en .',
        f"<{wd}/entity/P2043> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{ont}Property> .",
        f"<{wd}/entity/P2043> <{ont}propertyType> <{ont}Quantity> .",
        f"<{wd}/entity/P2043> <{ont}directClaim> <{wd}/prop/direct/P2043> .",
        f"<{wd}/entity/P2043> <{ont}claim> <{wd}/prop/P2043> .",
    ]
