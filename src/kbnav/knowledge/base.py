"""The protocol that every knowledge base implements, and the plain data that crosses it.

A knowledge base returns data; how it is shown to a model is the business of ``kbnav.tools``.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from kbnav.answers.tables import AnswerTable, Brief, Ranking
from kbnav.errors import BadArguments
from kbnav.models.cancellation import within

Capability = Literal[
    "search_entities",
    "get_entry",
    "get_property_examples",
    "execute_query",
    "search_neighbors",
    "vector_query",
]
"""What a knowledge base can do, by the name of the tool that needs it."""

Direction = Literal["out", "in", "both"]
INVERSE = "^"
"""Before a relation, as in SPARQL: followed from target to source."""
SearchKind = Literal["any", "item", "property", "value"]
"""What is searched for; ``value``: a text that a statement or qualifier has as its value."""


def followed(relation: str, direction: Direction) -> tuple[str, Direction]:
    """A relation without ``^``, and the direction that it is followed in: backwards where it has that."""
    if not relation.startswith(INVERSE):
        return relation, direction
    return relation.removeprefix(INVERSE), "out" if direction == "in" else "in"


@dataclass(frozen=True)
class Entity(Brief):
    """An entity, property or node: enough of it to be shown on one line."""

    id: str
    label: str = ""
    description: str = ""
    kind: str = "item"
    """``item``, ``property``, ``lexeme``; in an SKB the node's type."""
    datatype: str = ""
    """For a property, the datatype of its values, as in ``wikibase-item``."""
    alias: str = ""
    """The other name that it was found by."""
    source: str = ""
    """The knowledge base that it is of, where several are asked together."""

    @property
    def called(self) -> str:
        """The name that it was found by."""
        return self.alias or self.label


@dataclass(frozen=True)
class SearchResult:
    """What a search found, best first, and how.

    ``rung`` says which rung of the ladder matched: ``exact`` (the phrase as given), ``shorter`` (a part of it, named in
    ``matched``), ``near`` (names whose words are like it), ``fulltext``, ``value`` (only the texts of statements were
    searched), or ``none``. ``dropped`` are the words of the phrase that what was found does not have. ``values`` are
    statements that have the phrase as a text, ``note`` what a reader must know of them. ``suggestion``: what may have
    been meant, where nothing was found.
    """

    entities: tuple[Entity, ...] = ()
    properties: tuple[Entity, ...] = ()
    rung: Literal["exact", "shorter", "near", "fulltext", "value", "none"] = "none"
    matched: str = ""
    dropped: str = ""
    values: tuple[Stated, ...] = ()
    note: str = ""
    suggestion: str = ""


@dataclass(frozen=True)
class Value(Brief):
    """The value of a statement or qualifier.

    ``text`` is for reading (a label, a date to its precision, a number with its unit); ``id`` is set where the value is
    an entity. ``special`` marks a value that is known to be unknown, or known not to exist. ``description`` is a line
    on an entity, where the knowledge base gives one with its neighbours.
    """

    text: str
    id: str = ""
    datatype: str = ""
    special: Literal["", "unknown", "none"] = ""
    description: str = ""

    @property
    def kind(self) -> Literal["item", "time", "number", "text", ""]:
        """What it is by its datatype; empty where nothing is known."""
        if self.id or self.special or not self.text:
            return "item" if self.id else ""
        if self.datatype == "time":
            return "time"
        return "number" if self.datatype in ("quantity", "decimal", "integer", "double") else "text"


@dataclass(frozen=True)
class Qualifier:
    """A property and value that qualify a statement."""

    property: Entity
    value: Value


@dataclass(frozen=True)
class Statement(Brief):
    """An outgoing edge of an entry."""

    property: Entity
    value: Value
    rank: Literal["preferred", "normal"] = "normal"
    qualifiers: tuple[Qualifier, ...] = ()


@dataclass(frozen=True)
class Entry(Brief):
    """Everything shown of one entity: its statements and, in an SKB, its document.

    ``redirected_from`` is the id asked for where the entity was merged into another. ``omitted`` counts the statements
    left out (deprecated ones), by reason.
    """

    entity: Entity
    statements: tuple[Statement, ...] = ()
    document: str = ""
    aliases: tuple[str, ...] = ()
    identifiers: tuple[Statement, ...] = ()
    """Statements with identifiers in other databases, which are many and seldom what is asked for."""
    redirected_from: str = ""
    omitted: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Example:
    """One real use of a property."""

    subject: Entity
    property: Entity
    value: Value


@dataclass(frozen=True)
class Edge(Brief):
    """An edge as seen from the entity asked about; ``indirect``: stated (``p:``, ``ps:``), and not ``wdt:``."""

    direction: Literal["out", "in"]
    relation: Entity
    neighbor: Value
    score: float = 0.0
    indirect: bool = False

    @property
    def way(self) -> str:
        """The id of its relation, ``^`` before it where it comes in."""
        return f"{INVERSE if self.direction == 'in' else ''}{self.relation.id}"


@dataclass(frozen=True)
class Share:
    """An entity with how often it was counted."""

    entity: Entity
    count: int


@dataclass(frozen=True)
class Neighborhood(Brief):
    """Edges of one entity, ranked; ``total`` counts those that matched before the limit was applied.

    ``relations`` are their relations with how many edges each has, most first, those that come in under ``^relation``.
    ``note`` is what else is to be known of the entity.
    """

    entity: Entity
    edges: tuple[Edge, ...] = ()
    total: int = 0
    relations: tuple[Share, ...] = ()
    note: str = ""

    def __iter__(self) -> Iterator[dict[str, str]]:
        """The edges as plain records: direction, relation and neighbour, each by id and label."""
        for edge in self.edges:
            relation, end = edge.relation, edge.neighbor
            yield {
                "direction": edge.direction,
                "relation": relation.id,
                "relationLabel": relation.label,
                "neighbor": end.id or end.text,
                "neighborLabel": end.text,
            }


@dataclass(frozen=True)
class Stated:
    """A statement with its subject and all its qualifiers."""

    subject: Entity
    statement: Statement


@dataclass(frozen=True)
class PropertyProfile:
    """How a property is used.

    ``direct`` and ``statements`` count its uses as ``wdt:`` and as ``p:``, up to ``limit``. The rest is of a sample of
    ``sampled`` statements by ``subjects`` subjects, or as many direct uses; each list has the commonest first.
    """

    direct: int
    statements: int
    limit: int
    sampled: int
    subjects: int
    qualifiers: tuple[Share, ...] = ()
    units: tuple[Share, ...] = ()
    subject_classes: tuple[Share, ...] = ()
    value_classes: tuple[Share, ...] = ()
    uses: tuple[Stated, ...] = ()


@dataclass(frozen=True)
class ClassProfile:
    """Members of a class, direct and below, up to ``limit``; ``properties`` that most of ``sampled`` have."""

    direct: int
    below: int
    limit: int
    sampled: int
    properties: tuple[Share, ...] = ()


@dataclass(frozen=True)
class ShapeProperty:
    """What members of a class have of one property: ``have`` of the sampled have it, at most ``most`` values each.

    ``ranges`` are the classes and datatypes of the values, the commonest first, with how many values are such. Of
    numbers, ``values`` are the least, the middle and the greatest, else one value. ``symmetric``: each link goes both
    ways.
    """

    property: Entity
    have: int
    most: int = 1
    ranges: tuple[Share, ...] = ()
    values: tuple[Value, ...] = ()
    symmetric: bool = False


@dataclass(frozen=True)
class ClassShape:
    """What the members of a class are like: ``members`` of its own, ``below`` those of its subclasses, up to ``limit``.

    ``incoming`` are the properties that lead to the sampled members, each with the class that it comes from. ``things``
    are all members of a class that has few.
    """

    entity: Entity
    members: int
    below: int
    limit: int
    sampled: int
    properties: tuple[ShapeProperty, ...] = ()
    subclasses: tuple[Share, ...] = ()
    incoming: tuple[tuple[Share, Entity | None], ...] = ()
    things: tuple[Entity, ...] = ()


@runtime_checkable
class Shaped(Protocol):
    """A knowledge base whose ids are names of IRIs, and that can say what its classes look like."""

    def ids_in(self, query: str) -> Sequence[str]:
        """Ids of what a query names, each once; its own vocabulary, such as datatypes, is left out."""

    def declared(self, query: str) -> str:
        """The query with the prefixes that it uses declared, so that it runs anywhere."""

    def label_predicates(self) -> Sequence[str]:
        """Ids of the predicates that labels are read by, the first that a thing has."""

    def nameless(self) -> Sequence[tuple[Share, Sequence[str]]]:
        """The classes most of whose members have no label, with IRIs of their properties of texts, commonest first."""

    def classes(self, *, language: str = "en") -> Sequence[Share]:
        """The classes with their members, the largest first; count 0 where they are not counted."""

    def classes_named(self, question: str, *, language: str = "en", limit: int = 4) -> Sequence[str]:
        """Ids of the classes that a question names, the likeliest first."""

    def properties_named(self, question: str, *, language: str = "en", limit: int = 4) -> Sequence[Entity]:
        """The properties of whose names a question has half of the words or more, the likeliest first."""

    def class_shape(self, class_id: str, *, language: str = "en") -> ClassShape:
        """What the members of a class have. Raises UnknownId, QueryTimeout."""


@runtime_checkable
class Profiled(Protocol):
    """A knowledge base that can say how its properties and classes are used, in one or two bounded queries each."""

    def property_profile(self, property_id: str, *, language: str = "en") -> PropertyProfile:
        """How a property is used. Raises UnknownId, QueryTimeout."""

    def class_profile(self, entity_id: str, *, language: str = "en") -> ClassProfile:
        """What the members of a class have. Raises UnknownId, QueryTimeout."""

    def incoming(self, entity_id: str, *, language: str = "en") -> Sequence[Share]:
        """The properties by which edges come in, most first, with how many. Raises UnknownId, QueryTimeout."""


@runtime_checkable
class KnowledgeBase(Protocol):
    """What an agent navigates, from several threads at once. Raises only ``TellModel`` and ``StopRun`` errors.

    A class of one's own that inherits from it has ``name``, ``capabilities`` and the methods that these name.
    """

    @property
    def name(self) -> str:
        """Short name, as in ``wikidata``."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The calls that work here; a tool whose capability is missing is not offered."""

    def state(self) -> Mapping[str, Any]:
        """What must be known to repeat a run: endpoints, dates, counts, checksums. No secrets."""
        return {}

    def search_entities(
        self, query: str, *, language: str = "en", limit: int = 8, kind: SearchKind = "any"
    ) -> SearchResult:
        """At most ``limit`` entities and half as many properties; with a ``kind`` up to ``limit`` of those."""
        raise BadArguments(f"{self.name} has no search_entities")

    def get_entry(self, entity_id: str, *, language: str = "en") -> Entry:
        """The statements and document of one entity. Raises UnknownId."""
        raise BadArguments(f"{self.name} has no get_entry")

    def get_property_examples(self, property_id: str, *, language: str = "en", limit: int = 5) -> Sequence[Example]:
        """A few real uses of a property or relation. Raises UnknownId."""
        raise BadArguments(f"{self.name} has no get_property_examples")

    def execute_query(self, query: str, *, language: str = "en") -> AnswerTable:
        """Run a read-only SPARQL query. Raises QuerySyntaxError, QueryRefused, QueryTimeout."""
        raise BadArguments(f"{self.name} has no execute_query")

    def search_neighbors(
        self,
        entity_id: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        query: str = "",
        language: str = "en",
        limit: int = 20,
    ) -> Neighborhood:
        """Edges of an entity, filtered by relation and direction and ranked against a phrase. Raises UnknownId."""
        raise BadArguments(f"{self.name} has no search_neighbors")

    def vector_query(self, text: str, *, kind: str = "item", limit: int = 10, language: str = "en") -> Ranking:
        """Entities of one kind (in an SKB, node type) nearest in meaning to a text."""
        raise BadArguments(f"{self.name} has no vector_query")

    def labels(self, ids: Sequence[str], *, language: str = "en") -> Mapping[str, str]:
        """Labels of many ids in one batched call; ids without a label are left out."""
        return {}


def is_mirror(state: Mapping[str, Any]) -> bool:
    """Whether the ``state`` of a knowledge base is a mirror's, so that the live service may know more."""
    return "mirror" in state


TO_FINISH = " Finish with what you have."
"""Ends what a model is told where no more may be looked up."""


class Meter:
    """Counts the requests of one question that are really sent, those tried again among them; threads share it."""

    def __init__(self, most: int = 0, patience: float = math.inf) -> None:
        """``most`` requests may be sent (0: any number), and ``patience`` seconds waited for what is not answered."""
        self._most, self._patience = most, patience
        self._waited = 0.0
        self._lock = threading.Lock()
        self._sent: Counter[str] = Counter()

    def count(self, service: str) -> None:
        """One more request goes to a service."""
        with self._lock:
            self._sent[service] += 1

    def wait(self, seconds: float) -> None:
        """So many seconds more were waited for an answer that did not come."""
        with self._lock:
            self._waited += seconds

    @property
    def impatient(self) -> str:
        """Why nothing more is asked of services that do not answer; empty while there is patience."""
        if self._waited < self._patience:
            return ""
        return f"Services have left this question waiting for {self._waited:.0f} s without an answer: no more is asked."

    @property
    def sent(self) -> Mapping[str, int]:
        """Requests by service: ``api``, ``sparql``, ``vector``."""
        with self._lock:
            return dict(self._sent)

    @property
    def spent(self) -> str:
        """Why no more may be looked up, for a model; empty while there is room."""
        if not self._most or sum(self.sent.values()) < self._most:
            return self.impatient and self.impatient + TO_FINISH
        return (
            f"The {self._most} requests to the knowledge base that a question may cost (budget.requests) are used up: "
            f"nothing more can be looked up.{TO_FINISH}"
        )


_METER: ContextVar[Meter] = ContextVar("meter")


def counted_by(meter: Meter) -> AbstractContextManager[None]:
    """Have a meter count the requests that are sent within."""
    return within(_METER, meter)


def current_meter() -> Meter:
    """The meter of the question that this code is a part of."""
    return _METER.get(None) or Meter()
