"""Expressions in words."""

from __future__ import annotations

from collections.abc import Callable

from kbnav.knowledge.sparql.syntax import Exists, Function, Group, Node, Operation, Value
from kbnav.knowledge.sparql.vocabulary import words_of
from kbnav.knowledge.sparql.words.naming import Naming

_SYMBOLS = ("+", "-", "*", "/")
_LOOSE = ("||", "&&", *_SYMBOLS)


class FormulaWords:
    """Says expressions; ``group`` says the group of an EXISTS on one line. ``unsaid`` collects what has no words."""

    def __init__(self, naming: Naming, group: Callable[[Group], str], unsaid: dict[str, None]) -> None:
        self._naming = naming
        self._phrases = naming.phrases
        self._group = group
        self._unsaid = unsaid

    def say(self, node: Node) -> str:
        """An expression as a clause or noun phrase without a full stop."""
        match node:
            case Value(text=text):
                return self._naming.thing(text)
            case Exists(group=group):
                return f"{self._phrases.exists} {self._group(group)}"
            case Function():
                return self._function(node)
            case Operation(operator="!", operands=(Exists(group=group),)):
                return f"{self._phrases.not_exists} {self._group(group)}"
            case Operation(operator="!", operands=(Function(name="BOUND", arguments=(inner,)),)):
                return self._phrases.functions["!BOUND"].format(self.say(inner))
            case Operation():
                return self._operation(node)

    def _operation(self, node: Operation) -> str:
        parts = [self._inner(one) for one in node.operands]
        if node.operator == "-" and len(parts) == 1:
            return f"−{parts[0]}"
        dates = any(self._is_date(one) for one in node.operands)
        template = self._phrases.operators.get(f"{node.operator} date" if dates else "", "")
        template = template or self._phrases.operators[node.operator]
        if node.operator in ("IN", "NOT IN"):
            return template.format(parts[0], ", ".join(parts[1:]))
        if node.operator == "!":
            return template.format(parts[0])
        found = parts[0]
        for part in parts[1:]:
            found = template.format(found, part)
        return found

    def _is_date(self, node: Node) -> bool:
        if isinstance(node, Value):
            return self._naming.iri(node.text.rpartition("^^")[2]).endswith(("#dateTime", "#date"))
        return isinstance(node, Function) and node.name == "NOW"

    def _inner(self, node: Node) -> str:
        text = self.say(node)
        return f"({text})" if isinstance(node, Operation) and node.operator in _LOOSE else text

    def _function(self, node: Function) -> str:
        functions, arguments = self._phrases.functions, [self.say(one) for one in node.arguments]
        if node.star:
            return self._phrases.rows
        if node.distinct and arguments:
            arguments[0] = self._phrases.different.format(what=arguments[0])
        template = functions.get(node.name) or functions.get(self._local(node.name))
        if template is None:
            name = words_of(self._naming.iri(node.name)) or node.name
            self._unsaid[f"function {node.name}"] = None
            return self._phrases.call.format(name=name, arguments=", ".join(arguments))
        missing = [""] * max(0, 3 - len(arguments))
        return template.format(*arguments, *missing, list=", ".join(arguments))

    def _local(self, name: str) -> str:
        """What a function with an IRI is among the phrases: ``cast`` for a datatype."""
        iri = self._naming.iri(name) if ":" in name else ""
        if iri.startswith("http://www.w3.org/2001/XMLSchema#"):
            return "cast"
        return iri.rpartition("/")[2].rpartition("#")[2]
