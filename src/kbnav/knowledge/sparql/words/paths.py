"""Triple patterns and property paths in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kbnav.knowledge.sparql.syntax import Path, Pattern
from kbnav.knowledge.sparql.vocabulary import INSTANCE_OF, SUBCLASS_OF
from kbnav.knowledge.sparql.words.naming import Naming, Property

STATEMENTS = ("p", "ps", "psv", "psn")


@dataclass
class Remarks:
    """What of a query's conditions a reader may take otherwise: names of classes and properties, in order."""

    with_subclasses: dict[str, None] = field(default_factory=dict)
    without_subclasses: dict[str, None] = field(default_factory=dict)
    any_rank: dict[str, None] = field(default_factory=dict)
    only_current: bool = False


class PathWords:
    """Says patterns, and notes remarks on the way."""

    def __init__(self, naming: Naming, remarks: Remarks) -> None:
        self._naming = naming
        self._phrases = naming.phrases
        self._remarks = remarks
        self._instance = naming.vocabulary.of(INSTANCE_OF)
        self._wider = naming.vocabulary.of(SUBCLASS_OF)

    def pattern(self, pattern: Pattern) -> str:
        """A pattern as a clause without a full stop."""
        say, subject, value = self._naming.thing, pattern.subject, pattern.object
        if isinstance(pattern.verb, str):
            return self._phrases.any_property.format(property=say(pattern.verb), subject=say(subject), value=say(value))
        path = pattern.verb
        while path.kind == "^":
            path, subject, value = path.parts[0], value, subject
        steps = self._steps(path)
        classes = self._classes(steps)
        if classes is not None:
            return self._member(subject, value, below=classes)
        what = say(value)
        if steps and steps[-1].kind == "*":
            what = self._closed(steps.pop(), what)
        if not steps:
            return f"{say(subject)}: {what}"
        start = say(subject)
        for step in steps[:-1]:
            start = self._reached(step, start)
        return self._last(steps[-1], start, what)

    def value(self, name: Property, subject: str, value: str) -> str:
        """What a property, its bearer and its value are together; all but the property are words already."""
        return self._stated(name.label, subject, value)

    def _stated(self, label: str, subject: str, value: str) -> str:
        template = self._phrases.verb if self._phrases.is_verbal(label) else self._phrases.property
        return template.format(property=label, subject=subject, value=value)

    def _member(self, subject: str, value: str, *, below: bool) -> str:
        say = self._naming.thing
        name = self._naming.property(value)
        if name.role == "wdno":
            return self._phrases.no_value.format(subject=say(subject), property=name.label)
        if not value.startswith(("?", "_:")):
            (self._remarks.with_subclasses if below else self._remarks.without_subclasses)[say(value)] = None
        template = self._phrases.instance_below if below else self._phrases.instance
        return template.format(subject=say(subject), value=say(value))

    def _classes(self, steps: Sequence[Path]) -> bool | None:
        """Whether steps lead from a thing to its class: True with classes above it, False without, None if not."""
        if not steps or steps[0].kind != "iri":
            return None
        first = self._naming.property(steps[0].name)
        instance = first.role in ("wdt", "ps") and first.id == self._instance
        if not instance and self._naming.known(steps[0].name) != "rdf:type":
            return None
        if len(steps) == 1:
            return False
        wider = len(steps) == 2 and steps[1].kind == "*" and steps[1].parts[0].kind == "iri"
        return True if wider and self._naming.property(steps[1].parts[0].name).id == self._wider else None

    def _steps(self, path: Path) -> list[Path]:
        """The steps of a sequence; a statement and its value are one step."""
        steps = [inner for part in path.parts for inner in self._steps(part)] if path.kind == "/" else [path]
        found: list[Path] = []
        for step in steps:
            before = self._role(found[-1]) if found else None
            now = self._role(step)
            if before and now and before.role == "p" and now.role in STATEMENTS:
                found.pop()
                self._remarks.any_rank[now.label] = None
            found.append(step)
        return found

    def _role(self, path: Path) -> Property | None:
        return self._naming.property(path.name) if path.kind == "iri" else None

    def _closed(self, step: Path, value: str) -> str:
        inner = step.parts[0]
        name = self._role(inner)
        if name and name.id == self._wider:
            self._remarks.with_subclasses[value] = None
            return self._phrases.or_below.format(value=value)
        return self._phrases.or_reached.format(value=value, property=self._noun(inner))

    def _last(self, step: Path, subject: str, value: str) -> str:
        if step.kind == "iri":
            return self.value(self._naming.property(step.name), subject, value)
        if step.kind == "negated" or (step.kind == "|" and all(part.kind == "iri" for part in step.parts)):
            return self._stated(self._noun(step), subject, value)
        if step.kind == "+":
            return self._phrases.leads.format(subject=subject, value=value, property=self._noun(step.parts[0]))
        return f"{self._reached(step, subject)}: {value}"

    def _reached(self, path: Path, subject: str) -> str:
        """What a path leads to from a subject."""
        phrases = self._phrases
        match path.kind:
            case "iri" | "negated":
                noun = self._noun(path)
                verbal = path.kind == "iri" and phrases.is_verbal(noun)
                return (phrases.verb_of if verbal else phrases.property_of).format(property=noun, subject=subject)
            case "^":
                inner = path.parts[0]
                return phrases.backward.format(subject=subject, property=self._noun(inner))
            case "/":
                for part in self._steps(path):
                    subject = self._reached(part, subject)
                return subject
            case "|":
                return self._alternatives([self._reached(part, subject) for part in path.parts])
            case "*":
                return phrases.any_steps.format(subject=subject, property=self._noun(path.parts[0]))
            case "+":
                return phrases.some_steps.format(subject=subject, property=self._noun(path.parts[0]))
            case "?":
                return phrases.maybe.format(subject=subject, reached=self._reached(path.parts[0], subject))

    def _noun(self, path: Path) -> str:
        """A path as the name of a relation."""
        match path.kind:
            case "iri":
                return self._naming.property(path.name).label
            case "negated":
                inner = path.parts[0]
                parts = inner.parts if inner.kind == "|" else (inner,)
                return self._phrases.other_property.format(names=", ".join(self._noun(part) for part in parts))
            case "|":
                return self._alternatives([self._noun(part) for part in path.parts])
            case "^":
                return f"← {self._noun(path.parts[0])}"
            case "/":
                return " → ".join(self._noun(part) for part in self._steps(path))
            case _:
                return f"{self._noun(path.parts[0])} ({path.kind})"

    def _alternatives(self, texts: Sequence[str]) -> str:
        found = texts[-1]
        for text in reversed(texts[:-1]):
            found = self._phrases.or_.format(one=text, other=found)
        return found
