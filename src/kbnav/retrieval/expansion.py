"""Query expansion: a query is expanded, and any retriever is asked with both (KAR, sections 3 and 5.2).

``prf`` adds the documents found first; ``hyde``, ``rar`` and ``agr`` let a model write documents that would answer the
query. ``kar`` is in ``kbnav.retrieval.kar``; ``rerank`` has a model score what another retriever finds.
"""

from __future__ import annotations

import json
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from kbnav.answers.tables import Ranking
from kbnav.errors import StopRun
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import field_names, get_doc_info, indexed_text
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB, is_empty, plain_text
from kbnav.knowledge.skb.text import normalise
from kbnav.models.calls import ModelCalls, open_calls
from kbnav.prompts import prompt_hashes, render
from kbnav.retrieval.base import (
    NO_PROMPTS,
    ComposedOptions,
    Retriever,
    as_ranking,
    build_stage,
    followed,
    hits_text,
    numbers,
    without_thought,
)
from kbnav.runs.trajectory import Observed, Trace
from kbnav.settings.model import Settings

Count = Annotated[int, Field(ge=1)]
Structures = Mapping[str, Sequence[str]]
"""The fields that documents of each node type have (KAR, Table 9)."""
TEMPERATURE = 0.7
"""Of sampled documents. KAR names none; this is that of HyDE's published code."""
SAMPLES = 3
"""Documents written for a query (KAR, section 5.3)."""
INITIAL = 3
"""Documents of an initial retrieval that are used (KAR, section 5.3)."""
_NODES = 0.5
"""Of the ranking of nodes that an expansion was written from, beside the last ranking's 1."""
_SAMPLED = 64
"""Documents of a type that are looked at for its fields."""
_FENCED = re.compile(r"[^\n`]{0,80}\s*```[\w-]*\n?((?:(?!```).)*)(?:```\s*)?", re.DOTALL)
"""A reply that is one fence of code, with a line at most before it."""
_LABEL = re.compile(r"\A\s*(?:[*_#\s]*)(?:answer|document|keywords|analysis)\s*:[*_]*\s*", re.IGNORECASE)
_NO_NAME = re.compile(r"\W*(?:none|null|n/a|no\b.*\bentit(?:y|ies)\b.*)\W*", re.IGNORECASE | re.DOTALL)
"""What stands in the place of a name where there is none."""
_OPENING = re.compile(r"[\[{]")
_NAMING = ("name", "title")
"""In the name of the field that holds a document's name."""
_DEEPEST = 8
_DECODER = json.JSONDecoder(strict=False)


class ExpansionOptions(ComposedOptions):
    """Options of every expansion."""

    base: str = "vss"
    """The system that is asked with the expanded query."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return (self.base,)


class PRFOptions(ExpansionOptions):
    """Options of ``prf``."""

    initial: Count = INITIAL
    """Documents of the first retrieval that are used."""


class SampledOptions(ExpansionOptions):
    """Options of what a model writes: ``hyde``."""

    samples: Count = SAMPLES
    """Documents that are written."""
    temperature: float = Field(TEMPERATURE, ge=0)
    """Of the model when it writes them; 0 for all else."""


class FeedbackOptions(SampledOptions):
    """Options of what a model writes with a first retrieval in view: ``rar``, ``agr``."""

    initial: Count = INITIAL
    """Documents of a first retrieval that are shown; ``agr`` shows so many for each of its drafts."""


class Expansions(list[str]):
    """Expansions, and ``nodes`` (numbers, best first) that are candidates of the last ranking by themselves."""

    def __init__(self, texts: Iterable[str], nodes: Sequence[int] = ()) -> None:
        super().__init__(texts)
        self.nodes = tuple(nodes)


class ExpandedRetriever:
    """A retriever that is asked with the query and its expansions in one text."""

    name: str

    def __init__(
        self, skb: SKB, base: Retriever, options: ExpansionOptions, prompts: Mapping[str, str] = NO_PROMPTS
    ) -> None:
        """``prompts``: SHA-256 of each prompt file that expanding needs."""
        self.prompts, self.stages = {**prompts, **base.prompts}, (base,)
        self._skb, self._base, self._options = skb, base, options

    @abstractmethod
    def expand(self, query: str, trace: Trace) -> Sequence[str]:
        """What is put behind the query, in that order; none without usable replies. Raises as the model's calls."""

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. Where there is no expansion, the query is asked as it is, and the trace says so."""
        trace = trace or Trace()
        expansions = self.expand(query, trace)
        for number, text in enumerate(expansions, 1):
            trace.record("expansion", Observed(text), number=number)
        if not expansions:
            trace.record("expanded_query", Observed("no expansion was made: the query is asked as it is", ok=False))
            return self._base.retrieve(query, k, trace)
        expanded = join(query, expansions)
        trace.record("expanded_query", Observed(expanded))
        nodes = expansions.nodes if isinstance(expansions, Expansions) else ()
        found = self._base.retrieve(expanded, max(k, len(nodes)), trace)
        if not nodes:
            return Ranking(found.nodes[:k])
        fused = reciprocal_rank_fusion([numbers(self._skb, found), list(nodes)], weights=[1.0, _NODES])[:k]
        with trace.step("candidates", nodes=len(nodes)) as seen:
            seen.text, seen.nodes = hits_text(self._skb, fused), [self._skb.id(node) for node, _ in fused]
        return as_ranking(self._skb, fused)


class PRF(ExpandedRetriever):
    """Pseudo-relevance feedback: the documents of a first retrieval, whole, as the expansion; it asks no model."""

    name = "prf"
    _options: PRFOptions

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``ExpandedRetriever``."""
        found = self._base.retrieve(query, self._options.initial, trace)
        return [indexed_text(self._skb, self._skb.number(node)) for node in found.ids]


class HyDE(ExpandedRetriever):
    """Samples documents that would answer the query, from document structures alone (KAR, 5.2, Table 6)."""

    name = "hyde"
    _options: SampledOptions

    def __init__(self, skb: SKB, base: Retriever, calls: ModelCalls, options: SampledOptions) -> None:
        super().__init__(skb, base, options, prompt_hashes(self.name))
        self._structures, self._calls = structures(skb), calls

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``ExpandedRetriever``."""
        return self._write("document", query, trace)

    def _write(self, step: str, query: str, trace: Trace, **values: object) -> list[str]:
        """Documents sampled for a step's prompt (at temperature 0 one), good replies alone. Raises as ``ask_many``."""
        prompt = render(f"{self.name}/{step}.md", query=query, structures=self._structures, **values)
        purpose, heat = "write a document" if step == "document" else step, self._options.temperature
        numbers = range(self._options.samples if heat else 1)
        prompts = [prompt] * len(numbers)
        replies = self._calls.ask_many(prompts, trace, purpose=purpose, temperature=heat, samples=numbers)
        written = [document(reply) for reply in replies if isinstance(reply, str)]
        return [text for text in written if text]


class RAR(HyDE):
    """As HyDE, with the ``initial`` documents in view that the query alone finds first (KAR, section 5.2, Table 6)."""

    name = "rar"
    _options: FeedbackOptions

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``ExpandedRetriever``."""
        return self._write("document", query, trace, documents=self._first([query], trace))

    def _first(self, texts: list[str], trace: Trace) -> list[str]:
        ids = [node for text in texts for node in self._base.retrieve(text, self._options.initial, trace).ids]
        return [document_line(self._skb, self._skb.number(node)) for node in dict.fromkeys(ids)]


class AGR(RAR):
    """Analyse, generate, refine: five calls of a model, two of which sample (KAR, section 5.2, Table 7).

    They extract, analyse, generate, generate again, refine. Each of ``samples`` drafts finds ``initial`` documents,
    which the second drafts are written from.
    """

    name = "agr"

    def expand(self, query: str, trace: Trace) -> list[str]:
        """See ``ExpandedRetriever``.

        With one sample there is nothing to weigh a draft against, and it is not refined. Where nothing can be made of
        the refined document, the expansion is the drafts it was to be made from.
        """
        keywords = self._ask("extract", query, trace)
        analysis = self._ask("analyse", query, trace, keywords=keywords or query) or query
        drafts = self._write("generate", query, trace, analysis=analysis)
        joined = list(dict.fromkeys(join(query, [draft]) for draft in drafts))
        found = self._first(joined or [query], trace)
        drafts = self._write("again", query, trace, documents=found) or drafts
        if not drafts or self._options.samples == 1:
            return drafts
        lines = list(dict.fromkeys(" ".join(draft.split()) for draft in drafts))
        refined = self._ask("refine", query, trace, documents=lines)
        return [refined] if refined else drafts

    def _ask(self, step: str, query: str, trace: Trace, **values: object) -> str:
        prompt = render(f"agr/{step}.md", query=query, **values)
        return document(self._calls.ask(prompt, trace, purpose=step, needed=False))


def join(query: str, expansions: Sequence[str]) -> str:
    """The query and its expansions behind it, a line each (KAR, equation 2)."""
    return "\n".join([query, *expansions])


def structures(skb: SKB) -> Structures:
    """Node types with their fields, in the order in which documents have them.

    Read off documents spread evenly over each type, because fields are no part of an SKB's schema: one that hardly any
    document has may be missing. Of STaRK's SKBs they are the fields that STaRK renders, as it calls them; of others
    those of the documents, but for those whose name begins with ``_``, which are a source's own numbers.
    """
    found: dict[str, Sequence[str]] = {}
    for number, kind in enumerate(skb.type_names):
        first, end = skb.nodes.type_start[number : number + 2]
        places = np.unique(np.linspace(first, end - 1, min(_SAMPLED, end - first)).astype(int)).tolist()
        found[kind] = tuple(dict.fromkeys(field for node in places for field in _fields(skb, node)))
    return MappingProxyType(found)


def _fields(skb: SKB, node: int) -> Sequence[str]:
    if skb.meta.style != "plain":
        return field_names(skb, node)
    keys = [key for key, value in skb.documents[node].items() if not key.startswith("_") and not is_empty(value)]
    return ["name", *(key.replace("_", " ") for key in keys)]


def document_line(skb: SKB, node: int) -> str:
    """A node's document for a prompt, without relations, in one line."""
    return get_doc_info(skb, node, add_rel=False, compact=True)


@dataclass(frozen=True)
class Entity:
    """A thing that a query names: its ``kind`` (empty if none exists), and the whole document, name first."""

    kind: str
    name: str
    text: str


def document(reply: str) -> str:
    """The document in a reply: without thoughts, a fence of code around the whole of it, and a label before it."""
    said = without_thought(reply)
    fenced = _FENCED.fullmatch(said)
    return _LABEL.sub("", fenced[1] if fenced else said).strip()


def entities(reply: str, kinds: Sequence[str]) -> list[Entity]:
    """The entities in a reply, each once, in its order.

    Asked for is a JSON list of ``{type: {field: value}}``. Read as well are one object of all types, a list of
    documents under a type, objects one after the other, and plain names in a JSON list. Nothing is made of prose, of
    thoughts, or of names that say that there is none.
    """
    known = {normalise(kind): kind for kind in kinds}
    found = [entity for value in _values(without_thought(reply)) for entity in _entities(value, "", known)]
    named = [entity for entity in reversed(found) if not _NO_NAME.fullmatch(entity.name)]
    return list({(entity.kind, normalise(entity.name)): entity for entity in named}.values())[::-1]


def _values(reply: str) -> Iterator[Any]:
    place = 0
    while match := _OPENING.search(reply, place):
        try:
            value, place = _DECODER.raw_decode(reply, match.start())
        except (ValueError, RecursionError):
            place = match.end()
            continue
        yield value


def _entities(value: Any, kind: str, known: Mapping[str, str], depth: int = 0) -> Iterator[Entity]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str) and value.strip():
        yield Entity(kind, value.strip(), value.strip())
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _entities(item, kind, known, depth + 1)
    elif isinstance(value, Mapping):
        typed = {key: known[normalise(str(key))] for key in value if normalise(str(key)) in known}
        if not kind and (typed or all(isinstance(inner, (Mapping, list, tuple)) for inner in value.values())):
            for key, inner in value.items():
                if key in typed or not isinstance(inner, str):
                    yield from _entities(inner, typed.get(key, ""), known, depth + 1)
        else:
            yield from _document(value, kind, known, depth)


def _document(fields: Mapping[Any, Any], kind: str, known: Mapping[str, str], depth: int) -> Iterator[Entity]:
    """A document by its fields, or what holds one; without a known type only a field for names makes it one."""
    words = {str(key): inner for key, inner in fields.items()}
    told = known.get(normalise(str(words.get("type", ""))))
    if told and not kind:
        kind = told
        del words["type"]
    texts = {key: inner for key, inner in words.items() if isinstance(inner, str) and inner.strip()}
    first = next(iter(texts), "") if kind else ""
    named = next((key for key in texts if any(part in key.casefold() for part in _NAMING)), first)
    if named:
        rest = plain_text({key: inner for key, inner in words.items() if key != named})
        name = texts[named].strip()
        yield Entity(kind, name, "\n".join(part for part in (name, rest) if part))
    else:
        yield from _entities([inner for inner in words.values() if not isinstance(inner, str)], kind, known, depth + 1)


def build_prf(kb: SkbKB, settings: Settings, options: PRFOptions) -> PRF:
    """See ``PRF``."""
    return PRF(kb.skb, build_stage(options.base, kb, settings, options), options)


def build_hyde(
    kb: SkbKB, settings: Settings, options: ExpansionOptions, kind: Callable[..., ExpandedRetriever] = HyDE
) -> ExpandedRetriever:
    """An expansion by the settings' model. Raises as ``build_retriever`` and ``open_calls``."""
    return kind(kb.skb, build_stage(options.base, kb, settings, options), open_calls(settings), options)


build_rar, build_agr = partial(build_hyde, kind=RAR), partial(build_hyde, kind=AGR)


_NUMBER = r"(?<![\w.,])[-+]?(?:0,\d+|\d+(?:\.\d+)?|\.\d+)(?!\w|[.,]\d)"
_SCORE = re.compile(rf"({_NUMBER})(?:\s*(?:/|out of)\s*({_NUMBER})|\s*(%))?", re.ASCII | re.IGNORECASE)
_ALONE = re.compile(rf"^[^\w.+-]*{_SCORE.pattern}\W*$", re.ASCII | re.IGNORECASE | re.MULTILINE)
_LABELLED = re.compile(rf"\b(?:score|rating|relevance)\b[^\w.+-]*(?:is\s+)?{_SCORE.pattern}", re.ASCII | re.IGNORECASE)


_RANK_WEIGHT = 0.1
"""What the first place of the first system adds to the model's score; the last adds ``1 / top_v`` of it."""


class RerankOptions(ComposedOptions):
    """Options of ``rerank``."""

    first: str = "vss"
    """The system whose first nodes are scored."""
    top_v: int = Field(default=20, ge=1)
    """How many of them; STaRK scores 20, and 10 for the questions that people wrote."""
    neighbors: int = Field(default=-1, ge=-1)
    """Neighbours of a kind that a document lists; -1: all, until the model's window is full."""

    @property
    def made_of(self) -> Sequence[str]:
        """See ``ComposedOptions``."""
        return (self.first,)


class Rerank:
    """The model's score of each node from its document and relations, and a little for its rank before."""

    name = "rerank"

    def __init__(self, skb: SKB, first: Retriever, calls: ModelCalls, options: RerankOptions) -> None:
        self._skb, self._first, self._calls, self._options = skb, first, calls, options
        self.stages = (first,)
        self.prompts: Mapping[str, str] = {**first.prompts, **prompt_hashes("rerank")}

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``. A node whose score cannot be read counts as scored 0; those not scored follow in order.

        Raises what ``ModelCalls.ask_many`` raises: where no call went well, or none can.
        """
        trace = trace or Trace()
        found = numbers(self._skb, self._first.retrieve(query, max(k, self._options.top_v), trace))
        few, others = found[: self._options.top_v], found[self._options.top_v :]
        prompts = [self._prompt(query, node) for node in few]
        replies = self._calls.ask_many(prompts, trace, purpose="score")
        with trace.step(self.name, of=self._first.name, top_v=len(few)) as seen:
            scores = [None if isinstance(reply, StopRun) else parse_score(reply) for reply in replies]
            hits = self._ranked(few, scores)
            seen.nodes = [self._skb.id(node) for node, _ in hits]
            bad = [self._skb.id(node) for node, score in zip(few, scores, strict=True) if score is None]
            seen.text = hits_text(self._skb, hits, len(hits))
            seen.text += f"\nno score could be read for {', '.join(bad)}" if bad else ""
            seen.ok = len(bad) < len(few) or not few
        return as_ranking(self._skb, followed(hits, others)[:k])

    def _prompt(self, query: str, node: int) -> str:
        """STaRK's own SKBs are shown in its own style and lines, which tell no direction."""
        directed, most = self._skb.meta.style == "plain", self._options.neighbors
        document = get_doc_info(self._skb, node, compact=directed, n_rel=most, directed=directed)
        return render("rerank/score.md", query=query, document=document, directed=directed)

    def _ranked(self, nodes: Sequence[int], scores: Sequence[float | None]) -> list[tuple[int, float]]:
        count = len(nodes)
        whole = [(score or 0.0) + _RANK_WEIGHT * (count - place) / count for place, score in enumerate(scores)]
        order = sorted(range(count), key=lambda place: -whole[place])
        return [(nodes[place], whole[place]) for place in order]


def parse_score(reply: str) -> float | None:
    """The score from 0 to 1 that a reply gives; None where it gives none, an impossible one, or several.

    It is the last number in a line of its own, else the last one behind the word score, else the only number. "7/10",
    "7 out of 10" and "70 %" are 0.7.
    """
    text = re.sub("[*_`]", " ", without_thought(reply))
    found = [*_ALONE.finditer(text)][-1:] or [*_LABELLED.finditer(text)][-1:] or [*_SCORE.finditer(text)]
    if len(found) != 1:
        return None
    number, whole, percent = (part and part.replace(",", ".") for part in found[0].groups())
    score = float(number) / (100 if percent else float(whole or 1) or math.nan)
    return score if 0.0 <= score <= 1.0 else None


def build_rerank(kb: SkbKB, settings: Settings, options: RerankOptions) -> Rerank:
    """See ``Rerank``. Raises as ``build_retriever`` and ``open_calls``."""
    return Rerank(kb.skb, build_stage(options.first, kb, settings, options), open_calls(settings), options)
