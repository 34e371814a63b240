"""A library's graph with German classes and a label predicate of its own, as in a catalogue."""

_TITLES = {1: "Die Brücke", 2: "Das Haus am Fluss"}
_BOOKS = {1: "Der Garten für Anfänger", 2: "Handbuch der Pilze"}


def library() -> str:
    """66 Romane and 34 Fachbücher, all Werke by their classes' super-class alone; 30 Personen, 3 Verlage, 4 Orte."""
    publishers = ["Nordlicht", "Suedverlag", "Ostwind"]
    places = ["Hamburg", "Leipzig", "Wien", "Basel"]
    people = ["Schulz, Max", "Meier, Luise", "Weber, Anna"]
    lines = [
        "@prefix v: <urn:v:> . @prefix d: <urn:d:> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .",
        "v:Roman rdfs:subClassOf v:Werk . v:Fachbuch rdfs:subClassOf v:Werk .",
    ]
    for name in ("Werk", "Roman", "Fachbuch", "Person", "Verlag", "Ort"):
        lines.append(f'v:{name} v:bezeichnung "{name}"@de .')
    for name in ("verfasser", "verlag", "geburtsort", "geburtsdatum", "erscheinungsjahr", "sitz"):
        lines.append(f'v:{name} v:bezeichnung "{name.capitalize()}"@de .')
    lines += [f'd:o{n} a v:Ort ; v:bezeichnung "{name}" .' for n, name in enumerate(places)]
    lines += [f'd:v{n} a v:Verlag ; v:bezeichnung "{name}" ; v:sitz d:o{n} .' for n, name in enumerate(publishers)]
    for n in range(30):
        born = f'v:geburtsort d:o{n % 4} ; v:geburtsdatum "{1900 + n}-05-06"^^xsd:date'
        name = people[n % 3] + (f" ({n // 3})" if n // 3 else "")
        lines.append(f'd:p{n} a v:Person ; v:bezeichnung "{name}" ; {born} .')
    for n in range(100):
        roman = n < 66
        title = (_TITLES.get(n, f"Roman von {n}")) if roman else _BOOKS.get(n - 65, f"Lehre {n}")
        lines.append(
            f'd:w{n} a v:{"Roman" if roman else "Fachbuch"} ; v:bezeichnung "{title}" ; v:verlag d:v{n % 3} ; '
            f'v:verfasser d:p{n % 22 if roman else 22 + n % 8} ; v:erscheinungsjahr "{1950 + n % 50}"^^xsd:gYear .'
        )
    return "\n".join(lines)
