"""A function of the API as it is offered: by its Python signature and docstring, which are all that a writer reads."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import FailFast, Field, ValidationError, validate_call

from kbnav.answers.relevance import words
from kbnav.answers.relevance import words as words_of
from kbnav.errors import FATAL, BadArguments, Stopped, StopRun
from kbnav.models.calls import ModelCalls
from kbnav.programs.api.bounded import excess
from kbnav.programs.api.source import NotHere, Source
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import without_thought
from kbnav.retrieval.rerank import parse_score
from kbnav.runs.trace import Trace

if TYPE_CHECKING:
    from kbnav.encoders import Encoder, Vectors


Group = Literal["knowledge base", "embedding", "strings", "language model", "feedback"]

MOST_PHRASE = 2_000
Phrase = Annotated[str, Field(max_length=MOST_PHRASE)]
"""A query or what else is compared with many texts."""
_PLAIN = {"Count": "int", "WordCount": "int", "SummaryWords": "int", "Phrase": "str"}
"""Types with bounds, as a writer reads them."""
_MOST_ARGUMENTS = 20


@dataclass(frozen=True)
class Function:
    """One function of the API."""

    group: Group
    method: Callable[..., Any]
    """Takes the object that it belongs to, then plain data as its signature says, and gives plain data."""
    asks_model: bool = False

    @property
    def name(self) -> str:
        """As a program calls it."""
        return self.method.__name__

    @cached_property
    def signature(self) -> str:
        """As in ``related(ids: list[str], limit: int = 100) -> dict[str, list[str]]``."""
        signature = inspect.signature(self.method)
        _, *parameters = signature.parameters.values()
        return f"{self.name}({', '.join(map(_typed, parameters))}) -> {signature.return_annotation}"

    @property
    def doc(self) -> str:
        """The docstring, and behind it the bounds of the numbers that it takes."""
        said = inspect.getdoc(self.method) or ""
        bounds = "; ".join(f"`{name}` is from {least:,} to {most:,}" for name, least, most in self._bounds())
        return f"{said} {bounds}." if bounds else said

    def _bounds(self) -> Iterator[tuple[str, int, int]]:
        """Each parameter that is a number with bounds, as validation has them."""
        for name, hint in get_type_hints(self.method, include_extras=True).items():
            limits = [one for part in getattr(hint, "__metadata__", ()) for one in getattr(part, "metadata", ())]
            found = {kind: getattr(one, kind) for one in limits for kind in ("ge", "le") if hasattr(one, kind)}
            if len(found) == 2:
                yield name, found["ge"], found["le"]

    def stub(self) -> str:
        """The function's declaration in Python, without its body."""
        body = textwrap.indent(f'"""{self.doc}"""\n...', "    ")
        return f"def {self.signature}:\n{body}"

    def call(self, owner: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What it gives for arguments from a program. Raises BadArguments for those that it does not take."""
        if self.group != "feedback":  # which takes anything, and reads only the beginning of it
            if len(args) + len(kwargs) > _MOST_ARGUMENTS:
                raise BadArguments(f"{self.name}: {len(args) + len(kwargs)} arguments; it is {self.signature}")
            if why := excess([args, kwargs]):
                raise BadArguments(f"{self.name}: {why} in one call")
        try:
            return self._checked(owner, *args, **kwargs)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(self._parameter(part) for part in first["loc"][:2])
            raise BadArguments(f"{self.name}: {where}: {first['msg']}; it is {self.signature}") from None

    @cached_property
    def _checked(self) -> Callable[..., Any]:
        """Says what is wrong with the first part of a list that is, however many are."""

        @wraps(self.method)
        def method(*args: Any, **kwargs: Any) -> Any:
            return self.method(*args, **kwargs)

        hints = get_type_hints(self.method, include_extras=True)
        method.__annotations__ = {name: _up_to_first(hint) for name, hint in hints.items()}
        return validate_call(method)

    def _parameter(self, part: int | str) -> str:
        """Pydantic names arguments by their place where they were given so."""
        names = list(inspect.signature(self.method).parameters)
        return names[part] if isinstance(part, int) and part < len(names) else str(part)[:80]


def _up_to_first(hint: Any) -> Any:
    """The type of a list, for a validation that ends at the first of its parts that is wrong."""
    if get_origin(hint) is not list:
        return hint
    (part,) = get_args(hint)
    return Annotated[list[_up_to_first(part)], FailFast()]  # type: ignore[misc]


def _typed(parameter: inspect.Parameter) -> str:
    """``limit: int = 100``; annotations are strings, as postponed evaluation leaves them."""
    name, equals, default = str(parameter.replace(annotation=inspect.Parameter.empty)).partition("=")
    annotation = _PLAIN.get(str(parameter.annotation), parameter.annotation)
    return f"{name}: {annotation} = {default}" if equals else f"{name}: {annotation}"


_MOST_COMPARED = 500_000_000
"""Pairs of letters that one call of ``fuzzy`` compares: some seconds."""


class StringFunctions:
    """A phrase beside many texts, a number from 0 to 1 for each. Docstrings are what the writer of a program reads."""

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (cls.exact_match, cls.token_recall, cls.token_f1, cls.fuzzy):
            yield Function("strings", method)

    def exact_match(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text 1.0 where it contains the phrase as whole words, whatever the case, else 0.0."""
        wanted = _padded(phrase)
        return [float(bool(wanted.strip()) and wanted in _padded(text)) for text in texts]

    def token_recall(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the share of the phrase's words that it has, whatever the case; function words do not count."""
        wanted = set(words(phrase))
        return [len(wanted & set(words(text))) / len(wanted) if wanted else 0.0 for text in texts]

    def token_f1(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text the harmonic mean of the shares of words that phrase and text have in common."""
        wanted = Counter(words(phrase))
        return [_f1(wanted, Counter(words(text))) for text in texts]

    def fuzzy(self, phrase: Phrase, texts: list[str]) -> list[float]:
        """For each text how well its best part fits the phrase letter by letter, whatever the case."""
        from rapidfuzz import fuzz, utils

        if len(phrase) * sum(map(len, texts)) > _MOST_COMPARED:
            raise BadArguments("fuzzy: phrase and texts are too long: compare names, or fewer texts at once")
        return [fuzz.partial_ratio(phrase, text, processor=utils.default_process) / 100 for text in texts]


def _padded(text: str) -> str:
    plain = "".join(char if char.isalnum() else " " for char in text.casefold())
    return f" {' '.join(plain.split())} "


def _f1(wanted: Counter[str], found: Counter[str]) -> float:
    shared = (wanted & found).total()
    return 2 * shared / (wanted.total() + found.total()) if shared else 0.0


MOST_IDS = 10_000
"""In one call, and in what it gives."""
Count = Annotated[int, Field(ge=1, le=MOST_IDS)]


class KnowledgeFunctions:
    """What the graph and the documents say. Docstrings are what the writer of a program reads."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (
            cls.ids_by_type,
            cls.types_of,
            cls.names_of,
            cls.texts_of,
            cls.relations_text,
            cls.documents_of,
            cls.field_of,
            cls.related,
            cls.relations_of,
            cls.follow_path,
            cls.find_by_name,
            cls.intersect,
        ):
            yield Function("knowledge base", method)

    def ids_by_type(self, node_type: str, limit: Count = 1000) -> list[str]:
        """Ids of the nodes of a type, the first of them in a fixed order."""
        return self._source.of_type(node_type, limit)

    def types_of(self, ids: list[str]) -> dict[str, str]:
        """The type of each node."""
        return self._source.types(ids)

    def names_of(self, ids: list[str]) -> dict[str, str]:
        """The name of each node."""
        return self._source.names(ids)

    def texts_of(self, ids: list[str]) -> dict[str, str]:
        """The text of each node: its name and its own fields, without its relations."""
        return self._source.texts(ids, own=True, relations=False)

    def relations_text(self, ids: list[str]) -> dict[str, str]:
        """The relations of each node as text, with the names of its neighbours."""
        return self._source.texts(ids, own=False, relations=True)

    def documents_of(self, ids: list[str]) -> dict[str, str]:
        """The whole document of each node: its text, then its relations."""
        return self._source.texts(ids, own=True, relations=True)

    def field_of(self, ids: list[str], field: str) -> dict[str, str]:
        """One field of each node as text, such as "description"; "" where a node lacks it."""
        return self._source.fields(ids, field)

    def related(
        self, ids: list[str], relation: str = "", direction: Literal["out", "in", "both"] = "both", limit: Count = 100
    ) -> dict[str, list[str]]:
        """The neighbours of each node by a relation, at most `limit` each; by any relation where it is "".

        "out" follows edges that begin at the node, "in" edges that end there: of an edge a --made by--> b, b is a
        neighbour of a by "out", and a one of b by "in".
        """
        return self._source.related(ids, relation, direction, limit)

    def relations_of(self, ids: list[str], limit: Count = 50) -> dict[str, dict[str, list[str]]]:
        """The neighbours of each node by relation, at most `limit` of one; ^ before the name where edges end there."""
        return self._source.relations(ids, limit)

    def follow_path(self, ids: list[str], path: list[str], limit: Count = 1000) -> list[str]:
        """The nodes at the end of a path of relations from any of some nodes, each once.

        `["has brand", "^has brand"]` leads out by the first relation and back in by the second. Each hop leads to at
        most ten times `limit` nodes, and `limit` are given.
        """
        return self._source.follow(ids, path, limit)

    def find_by_name(self, names: list[str], node_type: str = "", limit: Count = 10) -> dict[str, list[str]]:
        """Ids of the nodes with each name, best first; of one type where it is given.

        Aliases count as names. Case, accents, spaces and punctuation do not matter; behind nodes with the name come
        those with one spelled nearly so, up to three letters wrong in a long name.
        """
        return self._source.find(names, node_type, limit)

    def intersect(self, lists: list[list[str]]) -> list[str]:
        """The ids that are in all of the lists, in the order of the first."""
        others = [set(one) for one in lists[1:]]
        return [node for node in dict.fromkeys(lists[0] if lists else []) if all(node in one for one in others)]


MOST_TEXTS = 256
"""That one call may have encoded."""
_KEPT = 4_096
"""Vectors of texts that are kept between calls."""
WordCount = Annotated[int, Field(ge=5, le=1_000)]


class EmbeddingFunctions:
    """What texts have in common. Docstrings are what the writer of a program reads."""

    def __init__(self, source: Source, encoder: Encoder | None = None) -> None:
        """``encoder`` is for texts and, where the knowledge base has no vectors, for those of nodes."""
        self._source = source
        self._encoder = encoder or source.encoder
        self._vector = lru_cache(_KEPT)(self._encode)

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (cls.search, cls.similarity, cls.bm25, cls.embed, cls.best_chunk):
            yield Function("embedding", method)

    def search(self, query: Phrase, node_type: str = "", limit: Count = 100) -> dict[str, float]:
        """The nodes whose text fits the query best, with scores; best first.

        By words (BM25) and by meaning (vectors), their scores summed; either finds at most 200, whatever `limit` is.
        It knows nothing of relations, and `candidates` come from another search.
        """
        return self._source.search(query, node_type, limit)

    def similarity(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node from -1 to 1 how near its document is to the query in meaning."""
        near = self._source.similarity(query, ids)
        if near is not None:
            return dict(near)
        texts = self._source.texts(list(dict.fromkeys(ids)), own=True, relations=False)
        wanted, *others = np.array(self.embed([query, *texts.values()]))
        return {node: float(vector @ wanted) for node, vector in zip(texts, others, strict=True)}

    def bm25(self, query: Phrase, ids: list[str]) -> dict[str, float]:
        """For each node the BM25 score of its document for the query, 0 where they share no word.

        The document has the relations where these are indexed too.
        """
        return self._source.bm25(query, ids)

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector of length 1 for each text, at most 256 texts a call; sums of products are cosines."""
        if len(texts) > MOST_TEXTS:
            raise BadArguments(f"embed: {len(texts)} texts, {MOST_TEXTS} are allowed in one call")
        return [self._vector(text).tolist() for text in texts]

    def best_chunk(self, query: Phrase, ids: list[str], words: WordCount = 100) -> dict[str, str]:
        """From each node's document the part of so many words that shares most with the query, rare words first."""
        texts = self._source.texts(ids, own=True, relations=True)
        wanted = set(words_of(query))
        chunks = {
            node: [(part, wanted & set(words_of(part))) for part in _chunks(text, words)]
            for node, text in texts.items()
        }
        holders = Counter(word for parts in chunks.values() for _, shared in parts for word in shared)
        return {
            node: max(parts, key=lambda part: sum(1 / holders[word] for word in part[1]), default=("", set()))[0]
            for node, parts in chunks.items()
        }

    def _encode(self, text: str) -> Vectors:
        if self._encoder is None:
            raise NotHere("there is no encoder of texts for this knowledge base")
        vector: Vectors = self._encoder.encode([text])[0]
        return vector


def _chunks(text: str, words: int) -> list[str]:
    parts = text.split()
    return [" ".join(parts[first : first + words]) for first in range(0, len(parts), words)]


LETTERS = 6_000
"""Characters of a text that the model is shown."""
_DECODER = json.JSONDecoder(strict=False)
SummaryWords = Annotated[int, Field(ge=5, le=300)]


class OverLimit(BadArguments):
    """A call that would send more prompts than one run may; none of them was sent. A program sees a RuntimeError."""


class ModelFunctions:
    """What a model says of texts, for one run of a program. Docstrings are what the writer of a program reads."""

    def __init__(self, model: ModelCalls | None, trace: Trace, limit: int, tell: Callable[[str], None]) -> None:
        """Each function may send ``limit`` prompts; ``tell`` takes what the writer should hear of."""
        self._model, self._trace, self._limit, self._tell = model, trace, limit, tell
        self.sent: dict[str, int] = {}
        """Prompts so far, by function."""

    @classmethod
    def functions(cls) -> Iterator[Function]:
        """All of them, in the order in which they are told."""
        for method in (
            cls.parse_query,
            cls.score_texts,
            cls.check_texts,
            cls.extract,
            cls.summarise,
            cls.classify,
        ):
            yield Function("language model", method, asks_model=True)

    def parse_query(self, query: Phrase, fields: list[str]) -> dict[str, str]:
        """What the query says of each field, such as {"brand": "Nike"}; "" where it says nothing. One prompt."""
        fields = list(dict.fromkeys(fields))
        if not fields:
            return {}
        reply = self._ask("parse_query", [render("programs/parse.md", query=query, fields=fields)])[0]
        found = _object(reply)
        return {field: _plain(found.get(field)) for field in fields}

    def score_texts(self, query: Phrase, texts: list[str]) -> list[float]:
        """For each text from 0 to 1 how well it answers the query, as a model judges. One prompt a text."""
        prompts = [render("programs/score.md", query=query, text=_cut(text)) for text in texts]
        return [parse_score(reply) or 0.0 for reply in self._ask("score_texts", prompts)]

    def check_texts(self, requirement: Phrase, texts: list[str]) -> list[bool]:
        """For each text whether it meets a requirement in plain words, as a model judges. One prompt a text."""
        prompts = [render("programs/check.md", requirement=requirement, text=_cut(text)) for text in texts]
        return [reply.strip(" *_.`'\"").casefold().startswith("yes") for reply in self._ask("check_texts", prompts)]

    def extract(self, what: Phrase, texts: list[str]) -> list[str]:
        """From each text what is asked for, such as "the year"; "" where it does not say. One prompt a text."""
        prompts = [render("programs/extract.md", what=what, text=_cut(text)) for text in texts]
        return ["" if reply.strip(" .").casefold() == "none" else reply for reply in self._ask("extract", prompts)]

    def summarise(self, texts: list[str], words: SummaryWords = 50) -> list[str]:
        """Each text in at most so many words, as a model tells it. One prompt a text."""
        return self._ask("summarise", [render("programs/summarise.md", words=words, text=_cut(text)) for text in texts])

    def classify(self, texts: list[str], labels: list[str]) -> list[str]:
        """For each text the one of the labels that fits best, as a model judges; "" where it chose none. One prompt a
        text.
        """  # noqa: D205
        prompts = [render("programs/classify.md", labels=labels, text=_cut(text)) for text in texts]
        by_name = {_key(label): label for label in labels}
        return [by_name.get(_key(reply), "") for reply in self._ask("classify", prompts)]

    def _ask(self, name: str, prompts: Sequence[str]) -> list[str]:
        """The replies, empty where a call failed. Raises OverLimit, and StopRun where no call can go well."""
        sent = self.sent.get(name, 0)
        if sent + len(prompts) > self._limit:
            raise OverLimit(
                f"{name}: {self._limit} prompts are allowed for a query, {sent} were sent and this would send "
                f"{len(prompts)} more; none of them was sent"
            )
        if self._model is None or not prompts:
            return []
        self.sent[name] = sent + len(prompts)
        replies = self._model.ask_many(prompts, self._trace, purpose=name)
        failed = [reply for reply in replies if isinstance(reply, StopRun)]
        for error in failed:
            if isinstance(error, (*FATAL, Stopped)):
                raise error
        if failed:
            self._tell(f"[{name}: {len(failed)} of {len(prompts)} prompts were not answered: {failed[0]}]")
        return ["" if isinstance(reply, StopRun) else without_thought(reply) for reply in replies]


def model_prompts() -> dict[str, str]:
    """SHA-256 of each prompt file of these functions."""
    return prompt_hashes("programs")


def _cut(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS]} […]"


def _key(label: str) -> str:
    return label.strip(" *_.`'\"-").casefold()


def _object(reply: str) -> dict[str, Any]:
    """The first JSON object of a reply, empty where it has none."""
    start = reply.find("{")
    try:
        found = _DECODER.raw_decode(reply, start)[0] if start >= 0 else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(str(one) for one in value)
    return "" if value is None else str(value)
