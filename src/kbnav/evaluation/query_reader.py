"""A walk through a SPARQL query along the grammar of query forms and graph patterns, over the project's own tokens.

RDFLib's parser would not do: it refuses a tenth of SPINACH's gold queries (Blazegraph's ``WITH … AS %name``) and a
sixth of WikiWebQuestions' (triples without a full stop between them, which the live service takes), and takes fifty
times as long. Expressions are not parsed, only searched for what counts: literals, and the groups of EXISTS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from kbnav.errors import QuerySyntaxError
from kbnav.knowledge.sparql.cursor import Cursor
from kbnav.knowledge.sparql.labels import LABEL_SERVICE
from kbnav.knowledge.sparql.prefixes import STANDARD_PREFIXES, declared_prefixes, expand
from kbnav.knowledge.sparql.tokens import Token, syntax_error

# Subjects of triples that steer the query service and match no data.
_STEERING = ("http://www.bigdata.com/rdf#serviceParam", "http://www.bigdata.com/queryHints#")
_MODIFIERS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
_PATTERNS = ("FILTER", "OPTIONAL", "MINUS", "UNION", "BIND", "VALUES", "SERVICE", "GRAPH", "INCLUDE")


class Triple(NamedTuple):
    """A triple pattern; a literal object's text begins with a quote, a digit, a sign, or is ``true`` or ``false``."""

    subject: str
    path: str
    object: str


@dataclass
class Found:
    """What has been read so far: ``fields`` are the projections, ``values`` the nodes of VALUES."""

    clauses: Counter[str] = field(default_factory=Counter)
    fields: list[str] = field(default_factory=list)
    triples: list[Triple] = field(default_factory=list)
    values: set[str] = field(default_factory=set)
    literals: set[str] = field(default_factory=set)


class Reader(Cursor):
    """One pass over a query's tokens; each method leaves ``_at`` behind what it read.

    ``scope`` is the set that the variables a group binds go to: what ``SELECT *`` shows.
    """

    def __init__(self, query: str, tokens: list[Token]) -> None:
        super().__init__(tokens)
        self.found = Found()
        self.prologue = 0
        """Number of tokens before the query form."""
        self._text = query
        self._declared = declared_prefixes(tokens)
        self._blanks = 0
        self._named: dict[str, list[str]] = {}

    # Tokens

    def _ended(self) -> QuerySyntaxError:
        return syntax_error(self._text, len(self._text), "the query ends too early")

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(f"`{text}`")

    def _unexpected(self, wanted: str) -> QuerySyntaxError:
        token = self._next()
        return syntax_error(self._text, token.start, f"expected {wanted}, found `{token.text[:40]}`")

    @contextmanager
    def _uncounted(self) -> Iterator[None]:
        """What is read meanwhile is no part of the shape."""
        kept, self.found = self.found, Found()
        yield
        self.found = kept

    # Query forms

    def query(self) -> None:
        """The whole query, to the last token."""
        while self._is("PREFIX", "BASE"):
            self._at += 3 if self._is("PREFIX") else 2
        self.prologue = self._at
        if self._is("SELECT"):
            self.found.fields = self._select()
        else:
            self._other_form()
        if self._at < len(self._tokens):
            raise self._unexpected("the end of the query")

    def _other_form(self) -> None:
        if not self._is("ASK", "CONSTRUCT", "DESCRIBE"):
            raise self._unexpected("SELECT, ASK, CONSTRUCT or DESCRIBE")
        form = self._take().text.upper()
        self.found.clauses[form] += 1
        if form == "CONSTRUCT" and self._is("{"):
            with self._uncounted():  # the template makes triples and matches none
                self._group(set())
        if form == "DESCRIBE":
            while self._next().kind in ("variable", "iri", "name") or self._is("*"):
                self._at += 1
                if self._at == len(self._tokens):
                    return
        self._where(set())

    def _select(self) -> list[str]:
        """A SELECT query or subquery; returns the names of its fields."""
        self._expect("SELECT")
        self.found.clauses["SELECT"] += 1
        self._accept("DISTINCT", "REDUCED")
        names: list[str] = []
        everything = self._accept("*")
        while not everything and not self._is("WHERE", "{", "WITH", "FROM"):
            names.append(self._projection())
        while self._accept("WITH"):
            self._expect("{")
            fields = self._select()
            self._expect("}")
            self._expect("AS")
            self._named[self._take().text] = fields
        scope: set[str] = set()
        self._where(scope)
        return sorted(scope) if everything else names

    def _projection(self) -> str:
        if self._next().kind == "variable":
            return self._take().text[1:]
        # Blazegraph takes a call without `(… AS ?name)` around it; its field has no name then.
        start = self._at
        self._expression()
        named = [token for token in self._tokens[start : self._at] if token.kind == "variable"]
        aliased = any(token.is_word("AS") for token in self._tokens[start : self._at])
        return named[-1].text[1:] if named and aliased else f"_{start}"

    def _where(self, scope: set[str]) -> None:
        while self._accept("FROM"):
            self._accept("NAMED")
            self._take()
        self._accept("WHERE")
        self._group(scope)
        while self._is(*_MODIFIERS):
            word = self._take().text.upper()
            if word == "VALUES":
                self._values(scope)
                continue
            if word in ("GROUP", "ORDER"):
                self._expect("BY")
                word += " BY"
            self.found.clauses[word] += 1
            if word in ("LIMIT", "OFFSET"):
                self._take()
                continue
            while self._at < len(self._tokens) and not self._is("}", *_MODIFIERS):
                self._expression()

    # Graph patterns

    def _group(self, scope: set[str]) -> None:
        self._expect("{")
        while not self._accept("}"):
            if self._accept("."):
                continue
            if self._is("{"):
                self._group(scope)
            elif self._is("SELECT"):
                scope.update(self._select())
            elif self._is(*_PATTERNS):
                self._pattern(self._take().text.upper(), scope)
            else:
                self._triples(scope)

    def _pattern(self, word: str, scope: set[str]) -> None:
        """A graph pattern that begins with a keyword, behind it."""
        if word not in ("SERVICE", "GRAPH", "INCLUDE", "VALUES"):
            self.found.clauses[word] += 1
        match word:
            case "OPTIONAL" | "UNION":
                self._group(scope)
            case "MINUS":
                self._group(set())
            case "FILTER" | "BIND":
                start = self._at
                self._expression()
                if word == "BIND":
                    scope.update(t.text[1:] for t in self._tokens[start : self._at][-2:] if t.kind == "variable")
            case "VALUES":
                self._values(scope)
            case "INCLUDE":
                scope.update(self._named.get(self._take().text, ()))
            case "GRAPH":
                self._take()
                self._group(scope)
            case _:
                self._service(scope)

    def _service(self, scope: set[str]) -> None:
        self._accept("SILENT")
        if expand(self._take(), self._declared) == LABEL_SERVICE:
            with self._uncounted():
                self._group(set())
        else:
            self._group(scope)

    def _values(self, scope: set[str]) -> None:
        self.found.clauses["VALUES"] += 1
        while not self._accept("{"):
            token = self._take()
            if token.kind == "variable":
                scope.add(token.text[1:])
        while not self._accept("}"):
            if self._accept("(", ")", "UNDEF"):
                continue
            text = self._term(set())
            if not is_literal(text):
                self.found.values.add(text)

    def _expression(self) -> None:
        """One operand and the bracket behind it, if any: ``?x``, ``(…)``, ``year(…)``, ``NOT EXISTS {…}``."""
        if self._accept("EXISTS"):
            self._group(set())
        elif self._accept("("):
            while not self._accept(")"):
                self._expression()
        elif self._next().kind in ("string", "number") or self._is("TRUE", "FALSE"):
            self._literal()
        else:
            taken = self._take()
            if taken.is_word("NOT") or (taken.kind in ("word", "name", "iri") and self._is("(")):
                self._expression()

    # Triples

    def _triples(self, scope: set[str]) -> None:
        """One subject with its predicates and objects."""
        subject = self._node(scope)
        alone = subject.startswith("_:[") and self._is(".", "{", "}", *_PATTERNS)
        if not alone:
            self._predicates(subject, scope)

    def _predicates(self, subject: str, scope: set[str]) -> None:
        while True:
            path = self._path(scope)
            self._object(subject, path, scope)
            while self._accept(","):
                self._object(subject, path, scope)
            if not self._accept(";"):
                return
            while self._accept(";"):
                pass
            if self._is(".", "{", "}", "]", *_PATTERNS):
                return

    def _object(self, subject: str, path: str, scope: set[str]) -> None:
        if subject.startswith(_STEERING):
            with self._uncounted():
                self._node(scope)
            return
        target = self._node(scope)
        self.found.clauses["triple"] += 1
        self.found.triples.append(Triple(subject, path, target))

    def _path(self, scope: set[str]) -> str:
        """A property path as text, its names spelled as IRIs."""
        if self._next().kind == "variable":
            return self._term(scope)
        path = ""
        while True:
            while self._is("^", "!", "^^"):
                path += self._take().text
            if self._accept("("):
                path += "("
                if not self._is(")"):
                    path += self._path(scope)
                self._expect(")")
                path += ")"
            elif self._accept("A"):
                path += STANDARD_PREFIXES["rdf"] + "type"
            elif self._next().kind in ("name", "iri"):
                path += self._term(scope)
            else:
                raise self._unexpected("a property")
            while self._is("*", "+", "?"):
                path += self._take().text
            if not self._is("/", "|"):
                return path
            path += self._take().text

    def _node(self, scope: set[str]) -> str:
        """A term, ``[ … ]`` or a list; the last two become blank nodes of their own."""
        if not self._is("[", "("):
            return self._term(scope)
        closing = "]" if self._take().text == "[" else ")"
        self._blanks += 1
        blank = f"_:[{self._blanks}]"
        if closing == "]" and not self._is("]"):
            self._predicates(blank, scope)
        while closing == ")" and not self._is(")"):
            self._node(scope)
        self._expect(closing)
        return blank

    def _term(self, scope: set[str]) -> str:
        token = self._next()
        if token.kind == "variable":
            scope.add(token.text[1:])
        if token.kind in ("variable", "blank"):
            return "?" + self._take().text[1:] if token.kind == "variable" else self._take().text
        if token.kind in ("name", "iri"):
            return expand(self._take(), self._declared) or token.text
        return self._literal()

    def _literal(self) -> str:
        """A string with its language or datatype, a number, or a truth value, which alone is no literal to count."""
        sign = self._take().text if self._is("+", "-") else ""
        token = self._take()
        if token.is_word("TRUE", "FALSE") and not sign:
            return token.text.lower()
        if token.kind not in ("string", "number"):
            self._at -= 1
            raise self._unexpected("a term")
        text = sign + _content(token.text)
        if self._at < len(self._tokens) and self._next().kind == "language":
            text += self._take().text
        elif self._accept("^^"):
            text += "^^" + expand(self._take(), self._declared)
        self.found.literals.add(text)
        return text


def is_literal(text: str) -> bool:
    """Whether a node of a Triple is a literal."""
    return text in ("true", "false") or text[:1] in '"+-.0123456789'


def _content(text: str) -> str:
    """A string token with one double quote on each side, however it was quoted; a number as it is."""
    if text[0] not in "\"'":
        return text
    width = 3 if text[:3] in ('"""', "'''") else 1
    return f'"{text[width:-width]}"'
