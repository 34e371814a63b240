"""A query for people: with labels as comments, and as a link that opens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kbnav.answers.question import kb_of
from kbnav.knowledge.sparql.tokens import tokenize
from kbnav.knowledge.sparql.vocabulary import entity_tokens

_LONGEST = 60
_LABELS = re.compile(r"\A(?:# (?:[QPL][0-9]|<[^<>\s]+>: |[\w-]+:[\w.-]+: )[^\r\n]*(?:\r\n|\r|\n))+")


def comment_labels(query: str, labels: Mapping[str, str]) -> str:
    """The query below comments that give the labels of the ids in it, one a line; it runs as before.

    Ids are explained in the order of their first use; such comments that are there already are written anew. ``labels``
    maps ids (``Q42``, or names and IRIs as queries write them) to labels, which may hold anything: what could end a
    comment is taken out, and long ones are cut.
    Raises QuerySyntaxError at a string that is never closed.
    """
    query = _LABELS.sub("", query)
    tokens = tokenize(query)
    entities = dict(entity_tokens(tokens))
    used = dict.fromkeys(entities.get(token, token.text) for token in tokens if token.kind in ("name", "iri"))
    named = {entity: _one_line(labels.get(entity, "")) for entity in used}
    return "".join(f"# {entity}: {label}\n" for entity, label in named.items() if label) + query


def _one_line(label: str) -> str:
    # Some parsers read `\u000A` as a line break even in a comment.
    plain = "".join(character if character.isprintable() else " " for character in label.replace("\\", " "))
    words = " ".join(plain.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1].rstrip() + "…"


def query_link(query: str, page: str) -> str:
    """A link to ``page`` (the query service's, ending in ``#``) with the query behind it, percent-encoded as UTF-8."""
    return page + quote(query, safe="")


def page_for(state: Mapping[str, Any], usual: str, query: str = "") -> str:
    """The page that opens a query of a knowledge base with this ``state``: the ``usual``, unless it has another."""
    return str(state_for(state, query).get("query_page", usual))


def state_for(state: Mapping[str, Any], query: str) -> Mapping[str, Any]:
    """The state of the knowledge base that a query is for: of several, that which its line names."""
    own: Mapping[str, Any] = state.get("kbs", {}).get(kb_of(query)[0], {"query_page": ""})
    return own if state.get("kind") == "several" else state
