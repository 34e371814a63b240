"""Documents as text: STaRK's own formats, so that its published prompts and figures can be repeated, and a plain one.

Like STaRK's, relations are shown without their direction, each neighbour once. Where two relations lead to one
neighbour it is shown under both; STaRK's loader, which averages the numbers of parallel edges, shows it under one, and
not always one of the two. Where STaRK draws ``n_rel`` neighbours at random, the first ones are taken.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.graph import WAYS
from kbnav.knowledge.skb.schema import Fields, NodeText
from kbnav.knowledge.skb.store import SKB, is_empty, plain_text

AMAZON_ENTRIES = 25
"""STaRK shows reviews and questions up to and including the one after this position (``max_entries``, from 0)."""
PRIME_WORDS = 50_000
"""Words that Prime's documents keep of a gene's PubMed text."""
_FIELD = re.compile(r"\s*(?:- )?([^:\n#]+): ")
"""The name of a field at the beginning of a rendered line; a heading and a numbered entry are none."""
_GENE_FIELDS = {
    "name": "gene name",
    "type_of_gene": "gene types",
    "alias": "other gene names",
    "other_names": "extended other gene names",
    "genomic_pos": "genomic position",
    "generif": "PubMed text",
    "interpro": "protein family and classification information",
    "summary": "protein summary text",
}


def get_doc_info(
    skb: SKB,
    node: int,
    *,
    add_rel: bool = True,
    compact: bool = False,
    n_rel: int = -1,
    directed: bool = False,
) -> str:
    """The document of a node as text, in the SKB's style.

    ``add_rel`` adds the relations, at most ``n_rel`` neighbours of a kind where it is positive; ``compact`` puts all in
    one line. ``directed`` shows the relations with their direction, as no style of STaRK's does.
    """
    text = _document(skb, node, skb.documents[node], wrapped=not compact)
    if add_rel:
        text += _relations(skb, node, n_rel, directed=directed)
    text = compact_text(text) if compact else text
    return text.strip() if compact and skb.meta.style == "plain" else text


def _document(skb: SKB, node: int, fields: Fields, *, wrapped: bool = True) -> str:
    if skb.meta.style == "plain":
        # Without ``wrapped`` each field is one line, or ``compact_text`` would end sentences where lines are broken.
        text = plain_text(fields if wrapped else _unwrapped(fields))
        return f"- name: {skb.name(node)}\n- type: {skb.type(node)}\n" + (f"{text}\n" if text else "")
    return "".join(_stark_lines(skb, node, fields))


def _stark_lines(skb: SKB, node: int, fields: Fields) -> Sequence[str]:
    """STaRK's rendering of a document, a field of it an item, its entries items of their own."""
    return {"stark-amazon": _amazon, "stark-mag": _mag, "stark-prime": _prime}[skb.meta.style](skb, node, fields)


def paragraphs(skb: SKB, node: int) -> Iterator[tuple[str, str]]:
    """The rendered fields of a node of STaRK's beside its name, type, source and brand, each with a label to cite.

    Labels are those of STaRK's appendix C.1: ``description``, ``features-#7``, ``Q&A-#1``, ``details.summary``.
    """
    group, nested = "", False
    for line in _stark_lines(skb, node, skb.documents[node])[1:]:
        entry = re.match(r"#(\d+):\s*(.*)", line, re.DOTALL)
        field = re.match(r"\s*(?:- )?([^:\n#(]+?)(?: \([^)\n]*\))?:\s*(.*)", line, re.DOTALL)
        if entry:
            yield f"{group}-#{entry[1]}", " ".join(entry[2].split())
        elif field and not field[2].strip():
            group, nested = field[1], field[1] == "details"
        elif field and (nested or field[1] not in ("type", "source", "brand")):
            yield f"details.{field[1]}" if nested else field[1], " ".join(field[2].split())


def field_names(skb: SKB, node: int) -> list[str]:
    """The fields of a document as its rendering in STaRK's style calls them, that of its name first.

    Where the rendering calls that one by the node's type ("- product: …"), it is called title or name here.
    """
    found = [match[1] for line in _stark_lines(skb, node, skb.documents[node]) if (match := _FIELD.match(line))]
    if not re.search("name|title", found[0]):
        found[0] = "title" if found[0] == "product" else "name"
    return found


def _relations(skb: SKB, node: int, n_rel: int = -1, *, directed: bool = False) -> str:
    showing = {"stark-amazon": "product", "stark-mag": "paper"}.get(skb.meta.style)
    if showing and skb.type(node) != showing:
        return ""
    return _directed(skb, node, n_rel) if directed else get_rel_info(skb, node, n_rel=n_rel)


def get_rel_info(skb: SKB, node: int, *, n_rel: int = -1) -> str:
    """The relations of a node as text, in the SKB's style; empty where it has none."""
    render = {"stark-amazon": _amazon_relations, "stark-mag": _mag_relations}.get(skb.meta.style, _prime_relations)
    text = render(skb, node, n_rel)
    head = "- relations:" if render is _prime_relations and skb.meta.style != "plain" else "- relations:\n"
    return f"{head}{text}" if text else ""


def indexed_texts(skb: SKB, *, relations: bool = False, among: range | None = None) -> Iterator[NodeText]:
    """Nodes in number order as the indexes are built from them, with ``relations`` at the end of their documents.

    Every node, or those ``among``. Of STaRK's SKBs that is STaRK's own rendering and no more: a source's numbers and
    the entries that STaRK leaves out are not indexed. Of others it is the names and all fields.
    """
    for node, fields in skb.nodes.named(among):
        related = _relations(skb, node.number) if relations else ""
        if skb.meta.style != "plain":
            yield node._replace(text=_document(skb, node.number, fields) + related, names_in_text=True)
        else:
            yield node._replace(text="\n".join(filter(None, (skb.nodes.text_of(fields), related))))


def indexed_text(skb: SKB, node: int, *, relations: bool = False) -> str:
    """What the indexes hold of one node, with ``relations`` or without."""
    return next(indexed_texts(skb, relations=relations, among=range(node, node + 1))).document


def compact_text(text: str) -> str:
    """One line: STaRK's ``compact_text``."""
    text = text.replace("\n", ". ").replace("\r", "").replace("- ", "")
    text = text.replace(": .", ":").replace(":.", ":")
    return re.sub(r"\s{2,}", " ", text).replace(".. ", ". ")


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _unwrapped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_unwrapped(inner) for inner in value]
    return " ".join(value.split()) if isinstance(value, str) else value


def arrow(relations: Sequence[str], way: Literal["out", "in", "both"]) -> str:
    """Relations as a link from what stands before it, to it, or both."""
    head, tail = {"out": ("—", "→"), "in": ("←", "—"), "both": ("—", "—")}[way]
    return f"{head}{', '.join(relations)}{tail}"


def _directed(skb: SKB, node: int, n_rel: int) -> str:
    lines = []
    for number, relation in enumerate(skb.relation_names):
        for way in WAYS:
            by_type: dict[str, list[str]] = {}
            for other in skb.graph.neighbors(node, number, way).tolist():
                by_type.setdefault(skb.type(other), []).append(skb.name(other))
            kinds = [f"{', '.join(found[:n_rel] if n_rel > 0 else found)} ({kind})" for kind, found in by_type.items()]
            lines += [f"  {arrow([relation], way)} {'; '.join(kinds)}\n"] if kinds else []
    return "".join(["- relations:\n", *lines]) if lines else ""


def _neighbors(skb: SKB, node: int, relation: str) -> list[int]:
    """Numbers of the neighbours by one relation, either way, in the order of their ids as STaRK numbers them."""
    if relation not in skb.relation_names:
        return []
    nodes: list[int] = skb.graph.neighbors(node, skb.relation_number(relation)).tolist()
    return sorted(nodes, key=lambda number: int(skb.id(number))) if skb.meta.style != "plain" else nodes


def _title(skb: SKB, node: int, field: str, fields: Fields | None = None) -> str:
    return str((skb.documents[node] if fields is None else fields).get(field, skb.nodes.names[node]))


def _has_value(value: Any) -> bool:
    return value is not None and str(value) != "-1"


# Amazon


def _amazon(skb: SKB, node: int, fields: Fields) -> list[str]:
    kind = skb.type(node)
    if kind != "product":
        return [f"{kind} name: {_title(skb, node, f'{kind}_name', fields)}"]
    lines = [f"- product: {_title(skb, node, 'title', fields)}"]
    if "brand" in fields:
        lines.append(f"- brand: {fields['brand']}")
    size = fields.get("details")
    parts = str(size.get("product_dimensions", "")).split(" ; ") if isinstance(size, Mapping) else []
    if len(parts) == 2:
        lines += [f"- dimensions: {parts[0]}", f"- weight: {parts[1]}"]
    description = " ".join(fields.get("description") or []).strip(" ")
    if description:
        lines.append(f"- description: {description}")
    lines += _amazon_lists(fields)
    return [f"{line}\n" for line in lines]


def _amazon_lists(fields: Mapping[str, Any]) -> Iterator[str]:
    features = fields.get("feature") or []
    if features:
        yield "- features: "
        for number, feature in enumerate(features, 1):
            if feature and "asin" not in feature.lower():
                yield f"#{number}: {feature}"
    reviews = fields.get("review") or []
    if reviews:
        yield "- reviews: "
        # Most votes first; STaRK's sort leaves the order of equal votes open, here they keep theirs.
        order = sorted(range(len(reviews)), key=lambda place: -_votes(reviews[place]))
        for place in order[: AMAZON_ENTRIES + 2]:
            review = reviews[place]
            yield f'#{place + 1}:\nsummary: {review.get("summary", "nan")}\ntext: "{review.get("reviewText", "nan")}"'
    questions = fields.get("qa") or []
    if questions:
        yield "- Q&A: "
        for number, pair in enumerate(questions[: AMAZON_ENTRIES + 2], 1):
            yield f'#{number}:\nquestion: "{pair.get("question", "nan")}"\nanswer: "{pair.get("answer", "nan")}"'


def _votes(review: Mapping[str, Any]) -> int:
    votes = str(review.get("vote") or 0).replace(",", "")
    return int(votes) if votes.isdecimal() else int(float(votes)) if votes.replace(".", "", 1).isdigit() else 0


def _amazon_relations(skb: SKB, node: int, n_rel: int) -> str:
    text = ""
    for relation, head in (("also_buy", "products also purchased"), ("also_view", "products also viewed")):
        titles = [_title(skb, other, "title") for other in _neighbors(skb, node, relation)]
        titles = titles[:n_rel] if n_rel > 0 else titles
        if titles:
            text += f"  {head}: \n" + "".join(f"#{number}: {title}\n" for number, title in enumerate(titles, 1))
    brands = _neighbors(skb, node, "has_brand")
    return text + (f"  brand: {_title(skb, brands[0], 'brand_name')}\n" if brands else "")


# MAG


def _mag(skb: SKB, node: int, fields: Fields) -> list[str]:
    kind = skb.type(node)
    if kind == "paper":
        abstract = str(fields.get("abstract", "")).replace("\r", "").rstrip("\n")
        lines = [f" - paper title: {_title(skb, node, 'title', fields)}", f" - abstract: {abstract}"]
        if _has_value(fields.get("Date")):
            lines.append(f" - publication date: {fields['Date']}")
        lines += _mag_venue(fields)
        return [f"{line}\n" for line in lines]
    heads = {"author": "- author name", "field_of_study": " - field of study", "institution": " - institution"}
    counted = {"field_of_study": "field"}.get(kind, kind)
    lines = [f"{heads.get(kind, f'- {kind}')}: {_title(skb, node, 'DisplayName', fields)}"]
    for field, what in (("PaperCount", "paper"), ("CitationCount", "citation")):
        if _has_value(fields.get(field)):
            lines.append(f"- {counted} {what} count: {fields[field]}")
    return [f"{line}\n".replace("-1", "Unknown") for line in lines]


def _mag_venue(fields: Mapping[str, Any]) -> list[str]:
    for field, head in (
        ("OriginalVenue", "venue"),
        ("JournalDisplayName", "journal"),
        ("ConferenceSeriesDisplayName", "conference"),
        ("ConferenceInstancesDisplayName", "conference"),
    ):
        if _has_value(fields.get(field)):
            return [f" - {head}: {fields[field]}"]
    return []


def _mag_relations(skb: SKB, node: int, n_rel: int) -> str:
    text = ""
    for relation in skb.relation_names:
        nodes = _neighbors(skb, node, relation)
        if not nodes:
            continue
        if n_rel > 0 and relation == "paper___cites___paper":
            nodes = nodes[:n_rel]
        shown = [shown for other in nodes if (shown := _mag_neighbor(skb, other))]
        text += f"\n{relation.replace('___', ' ')}: ({', '.join(shown)}),"
    return text


def _mag_neighbor(skb: SKB, node: int) -> str:
    kind = skb.type(node)
    if kind == "paper":
        return f'"{_title(skb, node, "title")}"'
    name = _title(skb, node, "DisplayName")
    if not _has_value(name):
        return ""
    if kind == "author":
        places = [
            _title(skb, other, "DisplayName")
            for other in _neighbors(skb, node, "author___affiliated_with___institution")
        ]
        places = [place for place in places if _has_value(place)]
        return f"{name} ({', '.join(places)})" if places else name
    return name


# Prime, and SKBs that are not STaRK's


def _prime(skb: SKB, node: int, fields: Fields) -> list[str]:
    kind = skb.type(node)
    lines = [f"- name: {_title(skb, node, 'name', fields)}\n", f"- type: {kind}\n"]
    lines.append(f"- source: {fields.get('source', '')}\n")
    details = [
        _prime_detail(kind, key, value)
        for key, value in (fields.get("details") or {}).items()
        if str(value) not in ("", "nan") and not key.startswith("_") and "_id" not in key
    ]
    return [*lines, *(["- details:\n", *details] if details else [])]


def _prime_detail(kind: str, key: str, value: Any) -> str:
    if kind != "gene/protein" or key not in _GENE_FIELDS:
        return f"  - {key}: {value}\n"
    if key == "interpro":
        value = _each(value, "desc")
    elif key == "generif":
        value = " ".join("; ".join(map(str, _each(value, "text"))).split(" ")[:PRIME_WORDS])
    elif key == "genomic_pos" and isinstance(value, list) and value:
        value = value[0]
    return f"  - {key} ({_GENE_FIELDS[key]}): {value}\n"


def _each(value: Any, field: str) -> list[Any]:
    """A field of each entry of a list, or of the only one; what is no table stands for itself."""
    entries = value if isinstance(value, list) else [value]
    return [entry.get(field, "") if isinstance(entry, Mapping) else entry for entry in entries]


def _prime_relations(skb: SKB, node: int, n_rel: int) -> str:
    text = ""
    for relation in skb.relation_names:
        by_type: dict[int, list[int]] = {}
        for other in _neighbors(skb, node, relation):
            by_type.setdefault(skb.nodes.type_of(other), []).append(other)
        if not by_type:
            continue
        text += f"\n  {relation.replace(' ', '_')}: " + "{"
        # STaRK goes through a set of type numbers; the same set gives the same order.
        for kind in set(by_type):
            nodes = by_type[kind][:n_rel] if n_rel > 0 else by_type[kind]
            text += f"{skb.type_names[kind]}: ({', '.join(skb.name(other) for other in nodes)}),"
        text += "}"
    return text


WIDTH = 160
"""Characters of an excerpt."""
_READ = 20_000
"""Characters of a document that are looked at."""
_PROSE = 4
"""Words from which on a value reads like prose."""
_FACTS = 3
"""Fields that are told of a document without prose."""
_TELLING = ("description", "summary", "abstract", "definition", "gloss", "details")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_IDENTIFIER = re.compile(r"(?=\S*\d)[\w.:/#-]+|\d[\d.,:/ -]*")
_ADDRESS = re.compile(r"\S*(?:://|www\.)\S*")
_ASIDE = re.compile(r"(?:^|[ _])(?:ids?|urls?|uri|iri|licen[cs]es?|rights|copyright|sources?)$|^_", re.IGNORECASE)
"""Names of fields that hold identifiers or addresses, or say where the text is from and on what terms."""


def excerpt(fields: Fields, name: str = "", *, about: str = "", without: Collection[str] = ()) -> str:
    """At most ``WIDTH`` characters on one line; empty where the document says nothing but names and numbers.

    Args:
        fields: the document.
        name: that of the node, which need not be told again.
        about: a question; the sentence that shares most with it is taken, where one shares anything.
        without: fields that hold other names.
    """
    found = [(key, text) for key, text in _texts(fields, frozenset(without)) if text.casefold() != name.casefold()]
    prose = [(key, text) for key, text in found if len(text.split()) >= _PROSE or key in _TELLING]
    if not prose:
        return _line("; ".join(f"{key}: {text}" for key, text in found[:_FACTS]))
    prose.sort(key=lambda one: one[0].split(" ")[-1] not in _TELLING)
    if about:
        sentences = [part.strip() for _, text in prose for part in _SENTENCE.split(text) if part.strip()]
        scores = relevance(about, sentences)
        best = max(range(len(sentences)), key=lambda place: scores[place])
        if scores[best] > 0:
            return _line(sentences[best])
    return _line(prose[0][1])


def _texts(fields: Fields, without: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Fields with what they say, nested ones by their own names; of the first ``_READ`` characters."""
    room = _READ
    for key, value in _leaves(fields, ""):
        if key in without or _ASIDE.search(key):
            continue
        said = (" ".join(str(one).split()) for one in value)
        telling = (one for one in said if one and not _IDENTIFIER.fullmatch(one) and not _ADDRESS.fullmatch(one))
        text = ", ".join(telling)[:room]
        if text:
            yield key.replace("_", " "), text
        room -= len(text)
        if room <= 0:
            return


def _leaves(value: Any, key: str) -> Iterator[tuple[str, list[Any]]]:
    if is_empty(value) or isinstance(value, bool):
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name))
    elif isinstance(value, list):
        plain = [one for one in value if not isinstance(one, (Mapping, list))]
        if plain:
            yield key, plain
        for one in value:
            if isinstance(one, (Mapping, list)):
                yield from _leaves(one, key)
    else:
        yield key, [value]


def _line(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1].rstrip() + "…"
