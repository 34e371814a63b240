"""A query for people: laid out a pattern a line, with labels as comments, and as a link that opens it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from kbnav.answers.question import kb_of
from kbnav.knowledge.sparql.tokens import Token, tokenize, tokenize_all
from kbnav.knowledge.sparql.vocabulary import entity_tokens

_CLAUSES = (
    "ASK", "BASE", "BIND", "CONSTRUCT", "DESCRIBE", "FILTER", "FROM", "GRAPH", "GROUP", "HAVING", "LIMIT", "MINUS",
    "OFFSET", "OPTIONAL", "ORDER", "PREFIX", "SELECT", "SERVICE", "VALUES",
)  # fmt: skip
"""Words that begin a line."""
_INDENT = "  "


def formatted(query: str) -> str:
    """The query with a pattern a line; its tokens and comments are the same, in the same order.

    Raises QuerySyntaxError at a string that is never closed.
    """
    tokens = tokenize_all(query)
    lines = _Lines()
    for before, token in pairwise([None, *tokens]):
        assert token is not None
        gap = query[before.end if before else 0 : token.start]
        lines.add(token, before, gap)
    return lines.text()


class _Lines:
    def __init__(self) -> None:
        self._done: list[str] = []
        self._line = ""
        self._open: list[str] = []
        """Brackets around the next token; ``values`` for the braces of inline data, which stay on their line."""
        self._more = False
        """Whether the line goes on with a subject's next property."""
        self._data = False

    def text(self) -> str:
        self._break()
        return "\n".join(self._done) + "\n" if self._done else ""

    def add(self, token: Token, before: Token | None, gap: str) -> None:
        """Put a token behind ``before``, from which ``gap`` divides it."""
        if token.kind == "comment":
            self._comment(token.text, alone="\n" in gap or "\r" in gap)
            return
        if token.text == "}":
            self._close()
            return
        flat = not self._open or self._open[-1] == "{"
        after_block = before is not None and before.text == "}" and self._line.endswith("}")
        if flat and (token.is_word(*_CLAUSES) or (after_block and not token.is_word("UNION") and token.text != ".")):
            self._break()
            self._more = False
        self._put(token.text, spaced=bool(gap) or token.text in ("{", ".", ";") or after_block, flat=flat)
        self._track(token.text, flat=flat)
        self._data = token.is_word("VALUES") or (self._data and (token.kind == "variable" or token.text in ("(", ")")))

    def _track(self, text: str, *, flat: bool) -> None:
        if text == "{":
            self._open.append("values" if self._data else "{")
            if not self._data:
                self._break(outside=1)
        elif text in ("(", "["):
            self._open.append(text)
        elif text in (")", "]") and self._open:
            self._open.pop()
        elif text in (".", ";") and flat:
            self._break()
            self._more = text == ";"

    def _comment(self, text: str, *, alone: bool) -> None:
        if alone:
            self._break()
        self._line += f" {text}" if self._line else text
        if not alone and self._line == text and self._done:
            self._done[-1] += f" {text}"
            self._line = ""
        self._break()

    def _close(self) -> None:
        if self._open and self._open[-1] == "values":
            self._open.pop()
            self._put("}", spaced=True, flat=True)
            return
        self._break()
        if self._open:
            self._open.pop()
        self._more = False
        self._line = "}"

    def _put(self, text: str, *, spaced: bool, flat: bool) -> None:
        inside = not flat and (self._line.endswith(("(", "[")) or text in (")", "]"))
        glued = not spaced or not self._line or inside
        self._line += text if glued else f" {text}"

    def _break(self, outside: int = 0) -> None:
        if self._line:
            deep = self._open.count("{") - outside + self._more
            self._done.append(_INDENT * deep + self._line)
        self._line = ""


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
