"""What a prompt says of a local graph: of types and relations those that fit the question, and an example query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.importers.values import DATE, NUMBER, OTHER, kind_of
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.rdf import local_name, local_names
from kbnav.knowledge.skb.schema import TypeTuple
from kbnav.tools.toolbox import Toolbox

ALL_RELATIONS, RELATIONS = 30, 20
"""Up to the first a prompt lists all relations; of more, the second that fit best, and a tool finds the others."""
PAIRS = 6
"""Pairs of types that are listed of one relation, those that fit best."""
TYPES = 15
_EXAMPLES = 2
"""Nodes of each type that a prompt names."""
_READ, _FIELDS = 20, 15
"""Documents of each type that are read for its fields, and fields that a prompt names."""
_STARTS = 8
"""Nodes named by the question that a prompt tells."""
_NAME, _VALUE, _VALUES = 40, 30, 2
"""Characters of each, and of a field's value; values of a field, of long ones one."""
_TYPES = {bool: "truth value", list: "list", dict: "nested", OTHER: "text", DATE: "date as text"}
"""Of values that are no number, by their type or kind; dates are texts to queries."""


def hide_single_type(toolbox: Toolbox, kb: SkbKB) -> Toolbox:
    """The tools as a model is told of them: in a graph of one type, nothing of types."""
    return toolbox.hiding("node_type") if len(kb.skb.type_names) == 1 else toolbox


@dataclass(frozen=True)
class Schema:
    """The schema of one SKB as prompts show it: the same for each question, unless it is too large to be told whole."""

    kb: SkbKB

    def __call__(self, question: str) -> dict[str, Any]:
        """The variables of ``walking/schema.md``; ``example`` is a query with an answer, ``starts`` the nodes named."""
        meta = self.kb.skb.meta
        many = len(self.kb.relations.shown) > ALL_RELATIONS
        ranked = [one for one, _ in self.kb.relations.ranked(question if many else "")]
        every = list(dict.fromkeys(one.relation for one in ranked))
        listed = every[: RELATIONS if many else ALL_RELATIONS]
        tuples = [one for one in ranked if one.relation in listed]
        sizes = {kind.name: (start, kind.count) for kind, start in zip(meta.types, meta.type_start, strict=False)}
        told = [end for one in tuples for end in (one.source, one.target)]
        about = question if len(sizes) > TYPES else ""
        scores = dict(zip(sizes, relevance(about, list(sizes)), strict=True))
        ordered = sorted(sizes, key=lambda name: (-scores[name], name not in told, -sizes[name][1]))
        return {
            "nodes": meta.nodes,
            "edges": meta.edges,
            "types": [
                {"name": name, "count": place[1], "examples": self._examples(*place), "fields": self._fields(*place)}
                for name in ordered[:TYPES]
                for place in [sizes[name]]
            ],
            "more_types": max(0, len(ordered) - TYPES),
            "relations": [
                self._relation_data(name, [one for one in tuples if one.relation == name]) for name in listed
            ],
            "more_relations": len(every) - len(listed),
            "example": self._example(tuples),
            "starts": self._starts(question),
        }

    def _starts(self, question: str) -> list[str]:
        """The nodes that the question names; common words name none."""
        if self.kb.skb.names is None:
            return []
        found = [one for one in NodeMatcher(self.kb.skb, "exact").match(question) if not one.common]
        kinds = len(self.kb.skb.type_names) > 1
        told = [f"{one.label} ({one.id}){f', {one.kind}' if kinds else ''}" for one in found]
        return _first(told, _STARTS)

    def _relation_data(self, name: str, tuples: Sequence[TypeTuple]) -> dict[str, Any]:
        pairs = [one.model_dump() for one in tuples[:PAIRS]]
        return {"name": self.kb.relations.display(name), "pairs": pairs, "more": len(tuples) - len(pairs)}

    def _example(self, tuples: Sequence[TypeTuple]) -> str:
        """``SELECT ?x WHERE { ?x a type:Drug ; rel:treats node:D12 }``, of an edge that there is."""
        skb = self.kb.skb
        for one in tuples:
            ends = skb.type_range(one.source), skb.type_range(one.target)
            for _, target in skb.graph.sample(skb.relation_number(one.relation), *ends, 1):
                kind = dict(zip(skb.type_names, local_names(skb.type_names), strict=True))[one.source]
                relation = self.kb.relations.display(one.relation)
                return f"SELECT ?x WHERE {{ ?x a type:{kind} ; rel:{relation} node:{local_name(skb.id(target))} }}"
        return "SELECT ?x WHERE { ?x rdfs:label ?name } LIMIT 20"

    def _examples(self, start: int, count: int) -> Sequence[str]:
        return [_short(self.kb.skb.name(node)) for node in _spread(start, count, _EXAMPLES)]

    def _fields(self, start: int, count: int) -> Sequence[str]:
        """The fields of a type's documents, but for other names of a node and a source's own (``_…``)."""
        found = dict[str, list[Any]]()
        for node in _spread(start, count, _READ) if self.kb.shows_documents else ():
            for key, value in self.kb.skb.documents[node].items():
                if value is not None and not key.startswith("_") and key not in self.kb.skb.meta.alias_fields:
                    found.setdefault(key, []).append(value)
        return _first([self._field(key, values) for key, values in found.items()], _FIELDS)

    def _field(self, key: str, values: Sequence[Any]) -> str:
        """The name of a field, how queries write it if that is not plain, its type and a few values, texts quoted."""
        own = local_name(key.replace(" ", "_"))
        plain = own == key or "execute_query" not in self.kb.capabilities
        told = [value for value in values if kind_of(value)]
        kinds = dict.fromkeys(_TYPES.get(type(one), _TYPES.get(kind_of(one), NUMBER)) for one in told)
        begun = (one[: 9 * _VALUE] if isinstance(one, str) else one for one in told)  # a document may be long
        shown = [_short(json.dumps(one, ensure_ascii=False), _VALUE) for one in begun]
        few = [*dict.fromkeys(shown)][: 1 if any(len(one) == _VALUE for one in shown) else _VALUES]
        described = f": {' or '.join(kinds)} ({', '.join(few)})" if few else ""
        return _short(key) + ("" if plain else f" (field:{own})") + described


def _first(told: Sequence[str], most: int) -> list[str]:
    return [*told[:most], *([f"and {len(told) - most} more"] if len(told) > most else [])]


def _short(name: str, most: int = _NAME) -> str:
    text = " ".join(name.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _spread(start: int, count: int, parts: int) -> Sequence[int]:
    return sorted({start + count * part // parts for part in range(parts)}) if count else []
