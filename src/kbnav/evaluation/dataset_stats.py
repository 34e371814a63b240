"""Statistics of a benchmark dataset: how complex its queries are, how varied its questions, how long both sides.

Queries are counted as in SPINACH (Tables 1, 6 and 7, appendices A and B), words and answers as in STaRK (Tables 3 and
4, Figures 4 and 5).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from kbnav.answers.tables import Term, csv_text
from kbnav.answers.tables import markdown_table as table
from kbnav.errors import QuerySyntaxError, UsageError
from kbnav.evaluation.datasets.records import Dataset, Question
from kbnav.knowledge.sparql.syntax import (
    Bind,
    Call,
    Filter,
    Nested,
    Query,
    Triples,
    Value,
    Values,
    is_literal,
    is_variable,
    nodes_of,
    parse_query,
)
from kbnav.knowledge.sparql.syntax import Path as PropertyPath
from kbnav.knowledge.sparql.tokens import Token, tokenize
from kbnav.knowledge.sparql.vocabulary import (
    LABEL_SERVICE,
    WIKIDATA_VOCABULARY,
    Terms,
    declared_prefixes,
    entity_tokens,
    expand,
)
from kbnav.runs.journal import write_whole

_BLANKS = {"variable": "?", "number": "0", "string": '""', "blank": "_:", "subquery": "%"}
# Subjects of triples that steer the query service and match no data.
_STEERING = ("http://www.bigdata.com/rdf#serviceParam", "http://www.bigdata.com/queryHints#")


class Triple(NamedTuple):
    """A triple pattern; a literal object's text begins with a quote, a digit, a sign, or is ``true`` or ``false``."""

    subject: str
    path: str
    object: str


@dataclass(frozen=True)
class QueryShape:
    """What a query is made of.

    ``clauses`` counts by kind: ``SELECT`` (subqueries too, and ASK, CONSTRUCT, DESCRIBE under their names), ``triple``,
    ``FILTER``, ``OPTIONAL``, ``MINUS``, ``UNION``, ``VALUES``, ``BIND``, ``GROUP BY``, ``HAVING``, ``ORDER BY``,
    ``LIMIT``, ``OFFSET``. ``projections`` are the names of the outermost SELECT's fields, ``*`` spelled out, empty for
    ASK. ``subjects``, ``objects`` and ``literals`` are those that occur, each once; objects are variables, entities and
    other IRIs, those of VALUES among them; truth values count as no literals. ``properties`` are property ids.
    ``pattern`` is the query with variables, ids, numbers and strings blanked out.
    """

    clauses: Counter[str]
    projections: tuple[str, ...]
    triples: tuple[Triple, ...]
    subjects: frozenset[str]
    objects: frozenset[str]
    literals: frozenset[Term]
    properties: frozenset[str]
    pattern: str


def query_shape(query: str) -> QueryShape:
    """Read a query in SPARQL 1.1 or Blazegraph's dialect of it. Raises QuerySyntaxError where it is neither.

    The label service and the parameters and hints of other services are no part of the shape.
    """
    tokens, read = tokenize(query), parse_query(query)
    terms = Terms(query, WIKIDATA_VOCABULARY)
    tails = [*(one.tail for one in read.selects), *(() if read.select else (read.tail,))]
    services = (one for one in read.elements(Nested) if one.kind == "SERVICE")
    hidden = [one.place for one in services if terms.iri(one.name) == LABEL_SERVICE]
    shown = [group for group in read.groups if not any(group.place.start in place for place in hidden)]
    clauses = Counter({"SELECT": len(read.selects)} | ({} if read.select else {read.form: 1}))
    clauses.update(modifier.kind for tail in tails for modifier in tail.modifiers)
    triples: list[Triple] = []
    listed: set[str] = set()
    for element in (
        *(one for group in shown for one in group.elements),
        *(one for tail in tails for one in tail.values),
    ):
        match element:
            case Triples(patterns=patterns):
                for one in patterns:
                    verb = one.verb if isinstance(one.verb, str) else _path(one.verb, terms).text()
                    triples.append(Triple(_spelled(one.subject, terms), verb, _spelled(one.object, terms)))
            case Values(terms=values):
                clauses["VALUES"] += 1
                listed.update(_spelled(one, terms) for one in values)
            case Filter() | Bind():
                clauses[type(element).__name__.upper()] += 1
            case Nested(kind="OPTIONAL" | "MINUS" as kind):
                clauses[kind] += 1
            case Nested(kind="UNION", groups=groups):
                clauses["UNION"] += len(groups) - 1
    triples = [one for one in triples if not one.subject.startswith(_STEERING)]
    clauses["triple"] = len(triples)
    objects = {*listed, *(one.object for one in triples)}
    nodes = (node for expression in read.expressions for node in nodes_of(expression.node))
    operands = (
        node.text if isinstance(node, Value) else node.separator if isinstance(node, Call) else "" for node in nodes
    )
    written = filter(is_literal, (*objects, *operands))
    return QueryShape(
        clauses=clauses,
        projections=_fields(read),
        triples=tuple(triples),
        subjects=frozenset(triple.subject for triple in triples),
        objects=frozenset(one for one in objects if not is_literal(one)),
        literals=frozenset(terms.literal(one) for one in written if not one[0].isalpha()),
        properties=frozenset(entity for _, entity in entity_tokens(tokens) if entity.startswith("P")),
        pattern=_blanked(tokens, len(read.prologue)),
    )


def _fields(read: Query) -> tuple[str, ...]:
    """Names of the query's fields; those that have none are numbered."""
    if read.select is None:
        return ()
    names = read.select.visible if read.select.star is None else sorted(read.select.visible)
    unnamed = (f"_{number}" for number in range(1, read.select.computed.count("") + 1))
    return tuple(dict.fromkeys((*(name[1:] for name in names), *unnamed)))


def _spelled(term: str, terms: Terms) -> str:
    """A variable, blank node or literal as it is written; anything else as its IRI, where its prefix is known."""
    plain = is_variable(term) or is_literal(term) or term.startswith("_:")
    return term if plain else terms.iri(term) or term


def _path(path: PropertyPath, terms: Terms) -> PropertyPath:
    """A path with its names spelled as IRIs."""
    name = terms.iri(path.name) or path.name if path.kind == "iri" else path.name
    return replace(path, name=name, parts=tuple(_path(part, terms) for part in path.parts))


def _blanked(tokens: Sequence[Token], prologue: int) -> str:
    """The query behind its prologue as one line: variables, ids, numbers, strings blanked out, keywords in capitals."""
    entities = {token.start: entity for token, entity in entity_tokens(tokens)}
    declared = declared_prefixes(tokens)
    words = []
    for token in tokens:
        if token.start < prologue:
            continue
        if token.start in entities:
            iri = expand(token, declared)
            words.append(f"<{iri.removesuffix(entities[token.start])}{entities[token.start][0]}>")
        else:
            words.append(_BLANKS.get(token.kind, token.text.upper() if token.kind == "word" else token.text))
    return " ".join(words)


CLAUSES = (
    "SELECT", "ASK", "CONSTRUCT", "DESCRIBE", "triple", "FILTER", "OPTIONAL", "MINUS", "GROUP BY", "HAVING", "ORDER BY",
)  # fmt: skip
"""What appendix A counts as a clause; its "join clause" is taken to be OPTIONAL, SPARQL's left join."""
_WORD_BREAK = re.compile(r"[\s_]+")


@dataclass(frozen=True)
class QueryStatistics:
    """Of the queries that parse: means over queries, then counts over the dataset.

    ``projections`` are the fields of the outermost SELECT without those for labels and descriptions, and one for ASK;
    ``answer_fields`` is what SPINACH's authors count instead, those bound in the first row of the answer, where answers
    with rows are stored.
    ``unparsed`` are the ids of questions whose query is no SPARQL.
    """

    queries: int
    unparsed: tuple[str, ...]
    clauses: float
    projections: float
    relations: float
    subjects: float
    predicates: float
    objects: float
    literals: float
    unique_patterns: int
    unique_properties: int
    answer_fields: float | None = None


@dataclass(frozen=True)
class LengthStatistics:
    """Mean, median, 95th percentile (nearest rank) and maximum of ``count`` lengths."""

    count: int
    mean: float
    median: float
    p95: int
    maximum: int

    def __str__(self) -> str:
        return f"{self.mean:.2f}, median {self.median:g}, 95 % {self.p95}, max {self.maximum}"


@dataclass(frozen=True)
class Several:
    """Questions with more than one answer, and shares of the questions with answers (STaRK, Table 3, section 2.5)."""

    questions: int
    share: float
    over_20: float
    over_30: float


@dataclass(frozen=True)
class Composition:
    """Words of the relational requirement against those of the textual one, means over ``questions`` that have both.

    ``ratio`` is of the first to the second, ``share`` that of the first in both (STaRK, Figure 5).
    """

    questions: int
    ratio: float
    share: float


@dataclass(frozen=True)
class WordStatistics:
    """``words`` words of a text, ``distinct`` of them different.

    They are what white space separates, case and punctuation kept. ``entropy`` is Shannon's, in bits;
    ``type_token_ratio`` falls with the number of words, so that it compares texts of one size only.
    """

    name: str
    words: int
    distinct: int
    entropy: float
    type_token_ratio: float


@dataclass(frozen=True)
class DatasetStatistics:
    """Statistics of one dataset, or of several taken as one.

    ``words`` are those of all questions.
    ``answers`` are rows or nodes of the stored gold answers; None where none are stored, as ``queries`` is.
    ``composition`` is known of made questions only. ``splits`` are the shares of datasets that are taken as one.
    """

    name: str
    questions: int
    words: WordStatistics
    question_words: LengthStatistics
    answers: LengthStatistics | None
    queries: QueryStatistics | None
    several: Several | None = None
    composition: Composition | None = None
    splits: Mapping[str, float] = field(default_factory=dict)


def dataset_statistics(*datasets: Dataset) -> DatasetStatistics:
    """Statistics of a dataset, or of several (splits, say) taken as one. Raises UsageError without any question."""
    questions = [question for dataset in datasets for question in dataset.questions]
    if not questions:
        raise UsageError("statistics need at least one question")
    split = [question.text().split() for question in questions]
    sizes = _answer_sizes(questions)
    shares = [sum(size > above for size in sizes) / max(1, len(sizes)) for above in (1, 20, 30)]
    return DatasetStatistics(
        name=" + ".join(dataset.name for dataset in datasets),
        questions=len(questions),
        words=word_statistics("", [word for text in split for word in text]),
        question_words=_lengths([len(text) for text in split]),
        answers=_lengths(sizes) if sizes else None,
        queries=_query_statistics(questions),
        several=Several(sum(size > 1 for size in sizes), *shares) if sizes else None,
        composition=_composition(questions),
        splits={one.name: len(one) / len(questions) for one in datasets} if len(datasets) > 1 else {},
    )


def word_statistics(name: str, words: Sequence[str], first: int | None = None) -> WordStatistics:
    """Statistics of words, or of the first so many, so that lengths compare. Raises UsageError for fewer."""
    if not words or len(words) < (first or 0):
        raise UsageError(f"{name or 'the text'} has {len(words)} words, not {first or 1}")
    counts = Counter(words[:first])
    total = counts.total()
    return WordStatistics(name, total, len(counts), entropy(counts.values()), len(counts) / total)


def entropy(counts: Iterable[int]) -> float:
    """Shannon's entropy, in bits, of a distribution given by positive counts (STaRK, appendix A)."""
    listed = list(counts)
    total = sum(listed)
    return math.fsum(count / total * math.log2(total / count) for count in listed)


def _answer_sizes(questions: Iterable[Question]) -> list[int]:
    return [len(one.nodes or one.answers or ()) for one in questions if one.nodes or one.answers is not None]


def _lengths(sizes: Sequence[int]) -> LengthStatistics:
    ordered = sorted(sizes)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return LengthStatistics(len(ordered), fmean(ordered), median(ordered), p95, ordered[-1])


def _composition(questions: Iterable[Question]) -> Composition | None:
    """What made questions ask for by relations and by text, in words; None without a question that has both.

    The relational requirement is, for each path, its start node's name, its relations and the types it goes through;
    the textual one is the phrase as the document has it.
    """
    pairs = []
    for question in questions:
        paths, text = question.meta.get("paths", ()), str(question.meta.get("text_source", ""))
        if paths and text:
            parts = (" ".join([p["start_name"], *(hop for hop, _ in p["hops"]), *p["types"][1:]]) for p in paths)
            pairs.append((len(_WORD_BREAK.split(" ".join(parts).strip())), len(text.split())))
    if not pairs:
        return None
    return Composition(len(pairs), fmean(a / b for a, b in pairs), fmean(a / (a + b) for a, b in pairs))


def _query_statistics(questions: Sequence[Question]) -> QueryStatistics | None:
    """Statistics of the gold queries; None where no question has one that parses."""
    shapes: list[QueryShape] = []
    unparsed = []
    for question in questions:
        if question.query:
            try:
                shapes.append(query_shape(question.query))
            except QuerySyntaxError:
                unparsed.append(question.id)
    if not shapes:
        return None

    def fields_of(names: Sequence[str]) -> int:
        return sum(not name.endswith(("Label", "Description")) for name in names)

    def projections(shape: QueryShape) -> int:
        return fields_of(shape.projections) if shape.clauses["ASK"] == 0 else 1

    tables = [one.answers for one in questions if one.query and one.answers]
    fields = [1 if one.boolean is not None else fields_of(list(one.bindings()[0])) for one in tables]
    return QueryStatistics(
        queries=len(shapes),
        unparsed=tuple(unparsed),
        clauses=fmean(sum(shape.clauses[kind] for kind in CLAUSES) for shape in shapes),
        projections=fmean(map(projections, shapes)),
        relations=fmean(len(shape.triples) for shape in shapes),
        subjects=fmean(len(shape.subjects) for shape in shapes),
        predicates=fmean(len(shape.properties) for shape in shapes),
        objects=fmean(len(shape.objects) for shape in shapes),
        literals=fmean(len(shape.literals) for shape in shapes),
        unique_patterns=len({shape.pattern for shape in shapes}),
        unique_properties=len(frozenset().union(*(shape.properties for shape in shapes))),
        answer_fields=fmean(fields) if fields else None,
    )


def statistics_markdown(statistics: Sequence[DatasetStatistics]) -> str:
    """The statistics as Markdown tables, a row a dataset."""
    words, answers, queries = [], [], []
    for s in statistics:
        words.append((s.name, s.questions, *_word_cells(s.words), s.question_words, s.answers or "–"))
        if s.several or s.composition or s.splits:
            m, c = s.several, s.composition
            counts = (m.questions, f"{m.share:.1%}", f"{m.over_20:.1%}", f"{m.over_30:.1%}") if m else ("–",) * 4
            splits = " / ".join(f"{share:.2f}" for share in s.splits.values()) or "–"
            answers.append((s.name, *counts, splits, f"{c.ratio:.2f} ({c.share:.0%} relational)" if c else "–"))
        if q := s.queries:
            fields = "" if q.answer_fields is None else f" ({q.answer_fields:.2f} in answers)"
            means = (q.clauses, q.projections, q.relations, q.subjects, q.predicates, q.objects, q.literals)
            cells = [f"{one:.2f}" for one in means]
            cells[1] += fields
            patterns = f"{q.unique_patterns} ({q.unique_patterns / q.queries:.1%})"
            queries.append((s.name, q.queries, *cells, patterns, q.unique_properties, len(q.unparsed)))
    tables = (
        ("Dataset|Questions|Words|Distinct|Entropy (bits)|Type-token ratio|Words a question|Answers a question", words),
        ("Dataset|Several answers|Share|Above 20|Above 30|Splits|Relational : textual", answers),
        (
            "Dataset|Queries|Clauses|Projections|Relations|Subjects|Predicates|Objects|Literals|Unique patterns|"
            "Unique properties|Unparsed",
            queries,
        ),
    )
    return "\n".join(table(head.split("|"), rows) for head, rows in tables if rows)


def words_markdown(statistics: Sequence[WordStatistics]) -> str:
    """Words of texts as a Markdown table, a row a text (STaRK, Table 4)."""
    head = ("Text", "Words", "Distinct", "Entropy (bits)", "Type-token ratio")
    return table(head, [(one.name, *_word_cells(one)) for one in statistics])


def _word_cells(found: WordStatistics) -> tuple[object, ...]:
    return found.words, found.distinct, f"{found.entropy:.2f}", f"{found.type_token_ratio:.3f}"


def write_histograms(groups: Mapping[str, Sequence[Question]], folder: Path) -> list[Path]:
    """Write words of questions and answers by group as CSV (STaRK, Figure 4). Raises UsageError."""
    words = {name: Counter(len(one.text().split()) for one in some) for name, some in groups.items()}
    answers = {name: Counter(_answer_sizes(some)) for name, some in groups.items()}
    for file, what, found in (("question-words.csv", "words", words), ("answers.csv", "answers", answers)):
        rows = [(name, size, counts[size]) for name, counts in found.items() for size in sorted(counts)]
        write_whole(folder / file, csv_text([("dataset", what, "questions"), *rows]))
    return [folder / "question-words.csv", folder / "answers.csv"]
