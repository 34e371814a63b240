"""Statistics of a benchmark dataset: how complex its queries are, how varied its questions, how long both sides.

Queries are counted as in SPINACH (Tables 1, 6 and 7, appendices A and B), words and answers as in STaRK (Tables 3 and
4, Figures 4 and 5).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median

from kbnav.errors import QuerySyntaxError, UsageError
from kbnav.evaluation.datasets import Dataset, Question
from kbnav.evaluation.markdown import table
from kbnav.evaluation.query_shape import QueryShape, query_shape

_WORD_BREAK = re.compile(r"[\s_]+")
CLAUSES = (
    "SELECT",
    "ASK",
    "CONSTRUCT",
    "DESCRIBE",
    "triple",
    "FILTER",
    "OPTIONAL",
    "MINUS",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
)
"""What appendix A counts as a clause; its "join clause" is taken to be OPTIONAL, SPARQL's left join."""


@dataclass(frozen=True)
class QueryStatistics:
    """Of the queries that parse: means over queries, then counts over the dataset.

    ``projections`` are the fields of the outermost SELECT without those for labels and descriptions, and one for ASK.
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


@dataclass(frozen=True)
class Lengths:
    """Mean, median, 95th percentile (nearest rank) and maximum of ``count`` lengths."""

    count: int
    mean: float
    median: float
    p95: int
    maximum: int


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
    """``words`` words of a text, ``distinct`` of them different; see ``DatasetStatistics``."""

    name: str
    words: int
    distinct: int
    entropy: float
    type_token_ratio: float


@dataclass(frozen=True)
class DatasetStatistics:
    """Statistics of one dataset, or of several taken as one.

    Words are what white space separates, case and punctuation kept. ``entropy`` is Shannon's, in bits, of the words of
    all questions; ``type_token_ratio`` falls with the number of words, so that it compares sets of one size only.
    ``answers`` are rows or nodes of the stored gold answers; None where none are stored, as ``queries`` is.
    ``composition`` is known of made questions only. ``splits`` are the shares of datasets that are taken as one.
    """

    name: str
    questions: int
    words: int
    distinct_words: int
    entropy: float
    type_token_ratio: float
    question_words: Lengths
    answers: Lengths | None
    queries: QueryStatistics | None
    several: Several | None = None
    composition: Composition | None = None
    splits: Mapping[str, float] = field(default_factory=dict)


def dataset_statistics(*datasets: Dataset, name: str = "", language: str = "en") -> DatasetStatistics:
    """Statistics of a dataset, or of several (splits, say) taken as one. Raises UsageError without any question."""
    questions = [question for dataset in datasets for question in dataset.questions]
    if not questions:
        raise UsageError("statistics need at least one question")
    split = [question.text(language).split() for question in questions]
    words = word_statistics("", [word for text in split for word in text])
    answers = answer_sizes(questions)
    return DatasetStatistics(
        name=name or " + ".join(dataset.name for dataset in datasets),
        questions=len(questions),
        words=words.words,
        distinct_words=words.distinct,
        entropy=words.entropy,
        type_token_ratio=words.type_token_ratio,
        question_words=_lengths([len(text) for text in split]),
        answers=_lengths(answers) if answers else None,
        queries=query_statistics(questions),
        several=_several(answers) if answers else None,
        composition=composition(questions),
        splits={one.name: len(one) / len(questions) for one in datasets} if len(datasets) > 1 else {},
    )


def word_statistics(name: str, words: Sequence[str], first: int | None = None) -> WordStatistics:
    """Statistics of words, or of the first so many of them, without which texts of two lengths cannot be compared.

    Raises UsageError where there are not so many, or none.
    """
    if not words or len(words) < (first or 0):
        raise UsageError(f"{name or 'the text'} has {len(words)} words, not {first or 1}")
    counts = Counter(words[:first])
    total = counts.total()
    return WordStatistics(name, total, len(counts), entropy(counts.values()), len(counts) / total)


def answer_sizes(questions: Iterable[Question]) -> list[int]:
    """Rows or nodes of each gold answer that is stored."""
    return [size for question in questions if (size := _answer_size(question)) is not None]


def composition(questions: Iterable[Question]) -> Composition | None:
    """What made questions ask for by relations and by text, in words; None without a question that has both.

    The relational requirement is, for each path, its start node's name, its relations and the types it goes through;
    the textual one is the phrase as the document has it.
    """
    pairs = []
    for question in questions:
        paths, text = question.meta.get("paths", ()), str(question.meta.get("text_source", ""))
        if paths and text:
            said = (" ".join([p["start_name"], *(hop for hop, _ in p["hops"]), *p["types"][1:]]) for p in paths)
            pairs.append((len(_WORD_BREAK.split(" ".join(said).strip())), len(text.split())))
    if not pairs:
        return None
    ratio, share = fmean(a / b for a, b in pairs), fmean(a / (a + b) for a, b in pairs)
    return Composition(len(pairs), ratio, share)


def query_statistics(questions: Sequence[Question]) -> QueryStatistics | None:
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
    return QueryStatistics(
        queries=len(shapes),
        unparsed=tuple(unparsed),
        clauses=fmean(sum(shape.clauses[kind] for kind in CLAUSES) for shape in shapes),
        projections=fmean(_projections(shape) for shape in shapes),
        relations=fmean(len(shape.triples) for shape in shapes),
        subjects=fmean(len(shape.subjects) for shape in shapes),
        predicates=fmean(len(shape.properties) for shape in shapes),
        objects=fmean(len(shape.objects) for shape in shapes),
        literals=fmean(len(shape.literals) for shape in shapes),
        unique_patterns=len({shape.pattern for shape in shapes}),
        unique_properties=len(frozenset().union(*(shape.properties for shape in shapes))),
    )


def entropy(counts: Iterable[int]) -> float:
    """Shannon's entropy, in bits, of a distribution given by positive counts (STaRK, appendix A)."""
    listed = list(counts)
    total = sum(listed)
    return math.fsum(count / total * math.log2(total / count) for count in listed)


def markdown(statistics: Sequence[DatasetStatistics]) -> str:
    """The statistics as Markdown tables, a row a dataset."""
    return "\n".join(filter(None, (_words_table(statistics), _answers_table(statistics), _queries_table(statistics))))


def words_markdown(statistics: Sequence[WordStatistics]) -> str:
    """Words of texts as a Markdown table, a row a text (STaRK, Table 4)."""
    head = ("Text", "Words", "Distinct", "Entropy (bits)", "Type-token ratio")
    rows = [(s.name, s.words, s.distinct, f"{s.entropy:.2f}", f"{s.type_token_ratio:.3f}") for s in statistics]
    return table(head, rows)


def _answers_table(statistics: Sequence[DatasetStatistics]) -> str:
    shown = [s for s in statistics if s.several or s.composition or s.splits]
    head = ("Dataset", "Several answers", "Share", "Above 20", "Above 30", "Splits", "Relational : textual")
    rows = []
    for s in shown:
        m, c = s.several, s.composition
        counts = (m.questions, f"{m.share:.1%}", f"{m.over_20:.1%}", f"{m.over_30:.1%}") if m else ("–",) * 4
        splits = " / ".join(f"{share:.2f}" for share in s.splits.values()) or "–"
        rows.append((s.name, *counts, splits, f"{c.ratio:.2f} ({c.share:.0%} relational)" if c else "–"))
    return table(head, rows) if rows else ""


def _words_table(statistics: Sequence[DatasetStatistics]) -> str:
    return table(
        (
            "Dataset",
            "Questions",
            "Words",
            "Distinct",
            "Entropy (bits)",
            "Type-token ratio",
            "Words a question",
            "Answers a question",
        ),
        [
            (
                s.name,
                s.questions,
                s.words,
                s.distinct_words,
                f"{s.entropy:.2f}",
                f"{s.type_token_ratio:.3f}",
                _shown(s.question_words),
                _shown(s.answers),
            )
            for s in statistics
        ],
    )


def _queries_table(statistics: Sequence[DatasetStatistics]) -> str:
    queries = [(item, item.queries) for item in statistics if item.queries]
    if not queries:
        return ""
    return table(
        (
            "Dataset",
            "Queries",
            "Clauses",
            "Projections",
            "Relations",
            "Subjects",
            "Predicates",
            "Objects",
            "Literals",
            "Unique patterns",
            "Unique properties",
            "Unparsed",
        ),
        [
            (
                s.name,
                q.queries,
                *(
                    f"{mean:.2f}"
                    for mean in (q.clauses, q.projections, q.relations, q.subjects, q.predicates, q.objects, q.literals)
                ),
                f"{q.unique_patterns} ({q.unique_patterns / q.queries:.1%})",
                q.unique_properties,
                len(q.unparsed),
            )
            for s, q in queries
        ],
    )


def _projections(shape: QueryShape) -> int:
    kept = [name for name in shape.projections if not name.endswith(("Label", "Description"))]
    return len(kept) if shape.clauses["ASK"] == 0 else 1


def _answer_size(question: Question) -> int | None:
    if question.nodes:
        return len(question.nodes)
    return None if question.answers is None else len(question.answers)


def _several(sizes: Sequence[int]) -> Several:
    def share(above: int) -> float:
        return sum(size > above for size in sizes) / len(sizes)

    return Several(sum(size > 1 for size in sizes), share(1), share(20), share(30))


def _lengths(sizes: Sequence[int]) -> Lengths:
    ordered = sorted(sizes)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return Lengths(len(ordered), fmean(ordered), median(ordered), p95, ordered[-1])


def _shown(lengths: Lengths | None) -> str:
    if lengths is None:
        return "–"
    return f"{lengths.mean:.2f}, median {lengths.median:g}, 95 % {lengths.p95}, max {lengths.maximum}"
