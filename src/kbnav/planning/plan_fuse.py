"""``plan-fuse``: a planner's paths from each name fused with words and meaning, by weights that follow the plan.

After arXiv 2605.30237, where fusion depends on the plan. Every name of the query is planned for by itself, from the
words around it; a node's evidence is what the paths give it and how its text fits the rest; weights that were learned,
and that depend on how sure the plan is, make one score of it. Of a query without a plan,
because it names nothing or no path is known, the rankings by words and by meaning are fused by their ranks.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from itertools import chain, groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from kbnav import encoders
from kbnav.answers.tables import Ranking
from kbnav.encoders import Encoder, encode_queries
from kbnav.encoders.trained import MODEL, Card, check_files, check_schema, digests, read_card, refuse_seen
from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.matching import NodeMatcher
from kbnav.knowledge.skb.search import reciprocal_rank_fusion
from kbnav.knowledge.skb.store import SKB
from kbnav.knowledge.skb.text import TextIndex
from kbnav.knowledge.skb.vectors import VectorSearch
from kbnav.planning.paths import TEXT_PATH, PathSchema, Plan, Planner, RelationPath, encoder_of, reached
from kbnav.planning.ranker import EPOCHS, Mask, Ranker
from kbnav.planning.training import MOST_ANSWERS, Example, LabelledQuestion, path_label, possible
from kbnav.retrieval.base import NO_PROMPTS, Hits, TrainedOptions, as_ranking, candidate_ranges, hits_text
from kbnav.retrieval.graph_rank import GraphRank, GraphRankOptions
from kbnav.runs.journal import write_whole
from kbnav.runs.trajectory import Trace
from kbnav.settings.plugins import needs

BEFORE, BEHIND = 6, 4
"""Words before a name, and behind it, that may speak of its relation."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Clause:
    """A name, the characters ``start`` up to ``end``, with the nodes it may be, by number.

    ``text`` is the words around it up to the names beside it, with the node's type in the name's place: a relation is
    worded in the same way whatever it is that is named.
    """

    nodes: tuple[int, ...]
    start: int
    end: int
    text: str


def clauses(question: str, matcher: NodeMatcher, skb: SKB) -> list[Clause]:
    """The names of a question in its order, without those that may be mere words; none where nothing is named."""
    matched = [node for node in matcher.match(question) if node.end and node.sure]
    named = [(span, tuple(nodes)) for span, nodes in groupby(matched, key=lambda node: (node.start, node.end))]
    named.sort(key=lambda one: one[0])
    borders = [0, *(end for (_, end), _ in named), len(question)]
    found = []
    for place, ((start, end), nodes) in enumerate(named):
        behind = named[place + 1][0][0] if place + 1 < len(named) else len(question)
        words = [
            *_WORD.findall(question[borders[place] : start])[-BEFORE:],
            nodes[0].kind,
            *_WORD.findall(question[end:behind])[:BEHIND],
        ]
        numbers = tuple(skb.number(node.id) for node in nodes)
        found.append(Clause(numbers, start, end, " ".join(words)))
    return found


def unnamed(question: str, found: Sequence[Clause]) -> str:
    """What a question says beside the names."""
    for clause in sorted(found, key=lambda one: -one.start):
        question = f"{question[: clause.start]} {question[clause.end :]}"
    return question


Floats = npt.NDArray[np.float64]

_PULL = 0.01
"""How strongly weights are held near those they begin with."""


class Candidates(NamedTuple):
    """The nodes of a question, by number, with their evidence [nodes, kinds], and the confidence of its plan."""

    nodes: npt.NDArray[np.int64]
    evidence: Floats
    confidence: float


@dataclass(frozen=True)
class Weights:
    """``plain`` and ``sure``, [kinds] each: a and b of the module's formula."""

    plain: tuple[float, ...]
    sure: tuple[float, ...]

    def scores(self, found: Candidates) -> Floats:
        """One a node, shape [nodes]."""
        return np.asarray(_design(found) @ np.array([*self.plain, *self.sure]))


def fit(questions: Sequence[tuple[Candidates, npt.NDArray[np.bool_]]], start: Weights) -> Weights:
    """The weights that make the marked answers likeliest, of questions that have some; else ``start``."""
    known = [(_design(found), right) for found, right in questions if right.any()]
    first = np.array([*start.plain, *start.sure])
    if not known:
        return start
    with needs("eval", "plan-fuse"):
        from scipy.optimize import minimize

    def loss(weights: Floats) -> tuple[float, Floats]:
        total, gradient = 0.0, np.zeros_like(weights)
        for design, right in known:
            scores = design @ weights
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            answers = shares[right].sum() + 1e-12
            total -= np.log(answers)
            gradient += design.T @ shares - design[right].T @ (shares[right] / answers)
        away = weights - first
        return total / len(known) + _PULL * (away @ away) / 2, gradient / len(known) + _PULL * away

    found = minimize(loss, first, jac=True, method="L-BFGS-B").x
    half = len(found) // 2
    return Weights(tuple(map(float, found[:half])), tuple(map(float, found[half:])))


def _design(found: Candidates) -> Floats:
    return np.hstack([found.evidence, found.evidence * (found.confidence - 0.5)])


_RARE = 2
"""Questions that a word stands in at most for it to tell of words that were never met."""
_DOUBT = 2.0
"""Questions' worth of doubt about a word that was met: so much it counts as one that was not."""
_WORTH = 0.3
"""Of the share of words that were never met: below it, a word tells nothing."""


@dataclass(frozen=True)
class WordWeights:
    """``shares`` has, for words that were met, how often the answers' documents had them; ``unmet`` is for others."""

    shares: Mapping[str, float]
    unmet: float = 1.0

    @classmethod
    def learn(cls, questions: Iterable[tuple[Collection[str], Sequence[Collection[str]]]]) -> WordWeights:
        """From the words of each question, and the words of each of its answers' documents."""
        asked: Counter[str] = Counter()
        held: defaultdict[str, float] = defaultdict(float)
        for words, documents in questions:
            for word in set(words) if documents else ():
                asked[word] += 1
                held[word] += sum(word in document for document in documents) / len(documents)
        rare = [word for word, count in asked.items() if count <= _RARE]
        unmet = sum(held[word] for word in rare) / sum(asked[word] for word in rare) if rare else 1.0
        shares = {word: (held[word] + _DOUBT * unmet) / (count + _DOUBT) for word, count in asked.items()}
        return cls(shares, unmet)

    def of(self, word: str) -> float:
        """How likely the answer's document has a word of the question, from 0 to 1."""
        return self.shares.get(word, self.unmet)

    def tells(self, word: str) -> bool:
        """Whether a word is worth a search: not those that answers have hardly more often than not."""
        return self.of(word) > _WORTH * self.unmet


KINDS = ("path", "narrow", "share", "words", "meaning", "question", "question-meaning", "untrained")
"""The evidence, in the order of its columns:

- ``path``: the sum over names of log(0.01 + the probability of the paths that lead from the name to the node);
- ``narrow``: the logarithm of these probabilities, each shared by all nodes that its path leads to;
- ``share``: how many of the question's words the document has, weighed by rarity and by ``WordWeights``;
- ``words``, ``meaning``: of the question without names and words that tell nothing, BM25 and cosine with the document;
- ``question``, ``question-meaning``: the same of the whole question, with the document and its relations;
- ``untrained``: the score that ``graph-rank`` gives, which goes by the schema's words and short, common paths.
"""
START = Weights((1.0, 0.3, 5.0, 2.5, 2.5, 1.5, 1.0, 1.0), (0.0,) * len(KINDS))
"""What the weights are before any training."""
_FLOOR, _NARROWEST = 0.01, 1e-7
_REACHED, _BY_WORDS, _BY_QUESTION, _UNTRAINED = 3_000, 50, 100, 50
"""Candidates: the best nodes at the ends of paths, by the words, by the whole question, and by ``graph-rank``."""
_ENDS = 20_000
"""Nodes that a hop may lead to."""


class Plans(NamedTuple):
    """What the plans of all names say: ``joint`` and ``narrow``, [nodes of the SKB], and the best path's share."""

    joint: Floats
    narrow: Floats
    reached: npt.NDArray[np.int64]
    confidence: float


class Gatherer:
    """Gathers the candidates of a question with their evidence."""

    def __init__(
        self,
        skb: SKB,
        planner: Planner,
        telling: WordWeights,
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        """``ranges`` are the nodes that may answer. Raises UsageError where the SKB has no index of texts or names."""
        if skb.text is None:
            raise UsageError(f"{skb.meta.name} was built without an index of texts, which plan-fuse needs")
        self._skb, self._planner, self._telling = skb, planner, telling
        self._ranges = list(ranges) if ranges else None
        self._text: TextIndex = skb.text
        self._matcher = NodeMatcher(skb, "exact")
        self._untrained = GraphRank(SkbKB(skb), GraphRankOptions())

    def plans(self, question: str) -> list[tuple[Clause, Plan]]:
        """The names of a question, each with the plan of its clause."""
        found = clauses(question, self._matcher, self._skb)
        return [(one, self._planner.plan(one.text, list(map(self._skb.id, one.nodes)))) for one in found]

    def gather(self, question: str, planned: Sequence[tuple[Clause, Plan]]) -> Candidates:
        """The candidates, by number, and their evidence, shape [nodes, kinds]; none of them is named."""
        plans = self._followed(planned)
        rest = unnamed(question, [clause for clause, _ in planned])
        told = " ".join(word for word in rest.split() if any(map(self._telling.tells, self._text.words(word))))
        whole_text = self._skb.relational_text or self._text
        whole = dict(whole_text.search(question, limit=2 * _BY_QUESTION, ranges=self._ranges, name_weight=0.0))
        by_words = self._text.search(told, limit=_BY_WORDS, ranges=self._ranges, name_weight=0.0)
        nodes = np.unique(
            np.concatenate([plans.reached, _numbers(list(whole)[:_BY_QUESTION]), _numbers(dict(by_words))])
        )
        ranking = self._untrained.retrieve(question, 2 * _UNTRAINED).nodes
        untrained = {self._skb.number(node.id): node.score for node in ranking}
        nodes = np.union1d(nodes, _numbers(list(untrained)[:_UNTRAINED]))
        named = [node for clause, _ in planned for node in clause.nodes]
        nodes = np.setdiff1d(nodes, named)
        if self._ranges is not None:
            nodes = nodes[np.any([(nodes >= first) & (nodes < end) for first, end in self._ranges], axis=0)]
        among = nodes.tolist()
        words = self._text.search(told, limit=len(among), among=among, name_weight=0.0) if among else []
        whole_vectors = self._skb.relational_vectors or self._skb.vectors
        meaning = self._cosines([(self._skb.vectors, told), (whole_vectors, question)], nodes)
        columns = [
            plans.joint[nodes],
            np.log(_NARROWEST + plans.narrow[nodes]),
            self._shares(rest, among),
            _scaled(dict(words), among),
            meaning[0],
            _scaled(whole, among),
            meaning[1],
            _scaled(untrained, among),
        ]
        return Candidates(nodes, np.stack(columns, axis=1), plans.confidence)

    def _followed(self, planned: Sequence[tuple[Clause, Plan]]) -> Plans:
        count = self._skb.meta.nodes
        joint, narrow, confidence = np.zeros(count), np.zeros(count), 0.0
        for clause, plan in planned:
            one = np.zeros(count)
            for path, share in plan.paths:
                if path == TEXT_PATH:  # the name may be a mere word: then nothing speaks against what no path leads to
                    one += share
                    continue
                confidence = max(confidence, share)
                ends = reached(self._skb, path, list(map(self._skb.id, clause.nodes)), _ENDS)
                one[ends] += share
                narrow[ends] += share / max(1, len(ends))
            joint += np.log(_FLOOR + one)
        found = np.flatnonzero(narrow)
        order = np.argsort(-(joint + START.plain[1] * np.log(_NARROWEST + narrow))[found], kind="stable")
        return Plans(joint, narrow, found[order[:_REACHED]], confidence)

    def _shares(self, rest: str, among: Sequence[int]) -> Floats:
        places = {node: place for place, node in enumerate(among)}
        found, whole = np.zeros(len(among)), 0.0
        for word in dict.fromkeys(self._text.words(rest)):
            holders = self._text.holders(word)
            rarity = math.log(1 + (self._text.nodes - holders + 0.5) / (holders + 0.5))
            weight = self._telling.of(word) * rarity
            whole += weight
            if among and self._telling.tells(word):
                held = self._text.search(word, limit=len(among), among=among, name_weight=0.0)
                found[[places[node] for node, _ in held]] += weight
        return found / whole if whole else found

    def _cosines(
        self, asked: Sequence[tuple[VectorSearch | None, str]], nodes: npt.NDArray[np.int64]
    ) -> list[npt.NDArray[np.floating]]:
        """The cosines of nodes with each text, 0 without vectors; texts are encoded together."""
        index = next((one for one, _ in asked if one is not None and one.count), None)
        if index is None:
            return [np.zeros(len(nodes)) for _ in asked]
        vectors = encode_queries(index.encoder, [text for _, text in asked])
        return [(one or index).rows(nodes) @ vector for (one, _), vector in zip(asked, vectors, strict=True)]


def _numbers(nodes: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.fromiter(nodes, np.int64)


def _scaled(scores: Mapping[int, float], among: Sequence[int]) -> Floats:
    found = np.array([scores.get(node, 0.0) for node in among], np.float64)
    return found / found.max() if len(found) and found.max() > 0 else found


MOST_DOCUMENTS = 5
"""Answers' documents of one question that its words are looked for in."""

Progress = Callable[[str, int, int], None]
Judged = tuple[Candidates, Mask]


@dataclass(frozen=True)
class Trained:
    """What was learned; ``before`` and ``after`` are scores on the validation questions, by the weights of each."""

    planner: Ranker
    telling: WordWeights
    weights: Weights
    before: dict[str, float]
    after: dict[str, float]


def train(
    skb: SKB,
    encoder: Encoder,
    learned: Sequence[Sequence[LabelledQuestion]],
    judged: Sequence[Sequence[LabelledQuestion]],
    progress: Progress = lambda stage, done, total: None,  # noqa: ARG005
) -> Trained:
    """Learn from sets of questions, and choose the weights on sets of others.

    Where there are several sets of each, as many, those of one place are worded alike; then each validation question
    is ranked twice: by the planner that learned from all sets, and by one that has not met its wording. So the weights
    know how far a plan can be trusted when the words are new. Raises UsageError where no question names a node.
    """
    examples = [list(_examples(skb, questions)) for questions in learned]
    planner = Ranker.train(skb, encoder, list(chain(*examples)))
    apart = []
    if len(examples) == len(judged) > 1:
        for place in range(len(examples)):
            others = chain(*examples[:place], *examples[place + 1 :])
            apart.append(Ranker.train(skb, encoder, list(others)))
    telling = WordWeights.learn(_words_and_documents(skb, question) for questions in learned for question in questions)
    total = sum(map(len, judged)) * (2 if apart else 1)
    known: list[Judged] = []
    for place, questions in enumerate(judged):
        for one in [planner, *apart[place : place + 1]]:
            gatherer = Gatherer(skb, one, telling)
            for question in questions:
                candidates = gatherer.gather(question.text, gatherer.plans(question.text))
                known.append((candidates, np.isin(candidates.nodes, _answers(skb, question))))
                progress("weights", len(known), total)
    weights = fit(known, START)
    return Trained(planner, telling, weights, _scores(known, START), _scores(known, weights))


def _examples(skb: SKB, questions: Sequence[LabelledQuestion]) -> Iterator[Example]:
    schema, matcher = PathSchema.of(skb), NodeMatcher(skb, "exact")
    for question in questions:
        answers = _answers(skb, question)
        for clause in clauses(question.text, matcher, skb) if answers else ():
            ids = tuple(map(skb.id, clause.nodes))
            label = _label(skb, schema, question, clause, answers)
            yield Example(clause.text, ids, frozenset(map(skb.type, clause.nodes)), label)


def _label(
    skb: SKB, schema: PathSchema, question: LabelledQuestion, clause: Clause, answers: Sequence[int]
) -> dict[RelationPath, float]:
    """The paths from a name to the answers: of those the question was made from, where it says so; ``text`` without."""
    if not question.paths:
        return path_label(skb, schema, clause.nodes, answers) or {TEXT_PATH: 1.0}
    ids = list(map(skb.id, clause.nodes))
    leading = [
        path
        for gold in question.paths
        for path in possible(gold, schema)
        if np.isin(answers, reached(skb, path, ids)).any()
    ]
    return {path: 1 / len(leading) for path in leading} or {TEXT_PATH: 1.0}


def _answers(skb: SKB, question: LabelledQuestion) -> list[int]:
    found = (skb.nodes.ids.find(answer) for answer in question.answers)
    return [number for number in found if number >= 0][:MOST_ANSWERS]


def _words_and_documents(skb: SKB, question: LabelledQuestion) -> tuple[set[str], list[set[str]]]:
    if skb.text is None:
        raise UsageError(f"{skb.meta.name} was built without an index of texts, which plan-fuse needs")
    rest = unnamed(question.text, clauses(question.text, NodeMatcher(skb, "exact"), skb))
    documents = [f"{skb.nodes.names[node]} {skb.nodes.text(node)}" for node in _answers(skb, question)[:MOST_DOCUMENTS]]
    return set(skb.text.words(rest)), [set(skb.text.words(document)) for document in documents]


def _scores(judged: Sequence[Judged], weights: Weights) -> dict[str, float]:
    """Hit@1 and MRR; 0 where no candidate is an answer."""
    ranks = []
    for found, right in judged:
        scores = weights.scores(found)
        ranks.append(1 + int((scores > scores[right].max()).sum()) if right.any() else 0)
    return {
        "hit@1": round(fmean(rank == 1 for rank in ranks), 4) if ranks else 0.0,
        "mrr": round(fmean(1 / rank if rank else 0.0 for rank in ranks), 4) if ranks else 0.0,
    }


PLANNER, LEARNED = "planner", "fuse.json"


def encoder_for(skb: SKB, name: str = "") -> Encoder:
    """What encodes clauses: the one named, else minilm, else that of the SKB's vectors. Raises UsageError."""
    if name in encoders.WITH_WEIGHTS:
        return encoders.load(name)
    found = None if name else encoders.default(lambda _: None)
    return found or encoder_of(skb)


def save(folder: Path, skb: SKB, found: Trained, encoder: Encoder, **facts: Any) -> Card:
    """Write the folder; the card last. ``facts`` are the card's ``data``, questions and ``seconds``."""
    found.planner.save(folder / MODEL / PLANNER, "exact")
    learned: dict[str, Any] = {
        "kinds": KINDS,
        "weights": asdict(found.weights),
        "telling": asdict(found.telling),
    }
    write_whole(folder / MODEL / LEARNED, json.dumps(learned, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    card = Card(
        kind="fuse",
        skb=skb.meta.name,
        schema_sha256=skb.meta.schema_sha256,
        relations=skb.relational_text is not None,
        base=encoder.name,
        settings={"evidence": KINDS},
        epochs=EPOCHS,
        best_epoch=EPOCHS,
        pool=skb.meta.nodes,
        before=found.before,
        after=found.after,
        versions={name: version(name) for name in ("numpy", "scipy")},
        files=digests(folder / MODEL),
        **facts,
    )
    card.write(folder)
    return card


def load(folder: Path, skb: SKB) -> tuple[Card, Ranker, WordWeights, Weights]:
    """Read what ``save`` wrote. Raises UsageError for another SKB's schema, DataError where it is damaged."""
    card = read_card(folder, "fuse")
    check_schema(folder, card, skb.meta.name, skb.meta.schema_sha256)
    check_files(folder / MODEL, card.files)
    planner = Ranker.load(folder / MODEL / PLANNER, skb, encoder_for(skb, card.base))
    found: dict[str, Any] = json.loads((folder / MODEL / LEARNED).read_bytes())
    if tuple(found["kinds"]) != KINDS:
        raise DataError(f"{folder}: its weights are of other evidence; train it again")
    return card, planner, WordWeights(**found["telling"]), Weights(**found["weights"])


class PlanFuseOptions(TrainedOptions):
    """Options of ``plan-fuse``."""

    depth: int = Field(default=100, ge=1)
    """Nodes of each ranking that count where there is no plan."""


class PlanFuse:
    """See the module."""

    name = "plan-fuse"
    prompts = NO_PROMPTS

    def __init__(self, kb: SkbKB, options: PlanFuseOptions) -> None:
        """Raises UsageError without what was trained, or where that is for another SKB; DataError if it is damaged."""
        self._skb, self._options, folder = kb.skb, options, options.folder(self.name, "fuse")
        self._ranges = candidate_ranges(kb.skb, options)
        card, planner, telling, self._weights = load(folder, kb.skb)
        self._gatherer = Gatherer(kb.skb, planner, telling, self._ranges)
        self.refuse_seen = partial(refuse_seen, folder, self.name, card.seen)

    def retrieve(self, query: str, k: int, trace: Trace | None = None) -> Ranking:
        """See ``Retriever``."""
        trace = trace or Trace()
        with trace.step("plan", query=query) as seen:
            planned = self._gatherer.plans(query)
            seen.nodes = [self._skb.id(node) for clause, _ in planned for node in clause.nodes]
            seen.text = "\n".join(_describe(query, *one) for one in planned) or "nothing is named"
        with trace.step("fuse", query=query) as seen:
            if any(path != TEXT_PATH for _, plan in planned for path, _ in plan.paths):
                hits = self._weighed(query, planned)
            else:
                hits = self._by_rank(query)
            seen.text, seen.nodes = hits_text(self._skb, hits[:k]), [self._skb.id(node) for node, _ in hits[:k]]
        return as_ranking(self._skb, hits[:k])

    def _weighed(self, query: str, planned: Sequence[tuple[Clause, Plan]]) -> Hits:
        found = self._gatherer.gather(query, planned)
        scores = self._weights.scores(found)
        order = np.argsort(-scores, kind="stable")
        return list(zip(found.nodes[order].tolist(), scores[order].tolist(), strict=True))

    def _by_rank(self, query: str) -> Hits:
        skb, depth = self._skb, self._options.depth
        words = skb.relational_text or skb.text
        vectors = skb.relational_vectors or skb.vectors
        rankings = [words.search(query, limit=depth, ranges=self._ranges, name_weight=0.0)] if words else []
        rankings += [vectors.search(query, limit=depth, ranges=self._ranges)] if vectors else []
        return reciprocal_rank_fusion([[node for node, score in hits if score > 0] for hits in rankings])


def _describe(query: str, clause: Clause, plan: Plan) -> str:
    best = [f"{share:.2f} {' / '.join(map(str, path.hops)) or 'text'}" for path, share in plan.paths[:3]]
    return f"{query[clause.start : clause.end]}: {', '.join(best) or 'no path'}"
