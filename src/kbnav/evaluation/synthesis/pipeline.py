"""Synthesizing questions by language models in four steps (STaRK, section 2.4, appendix C; Agent Retriever, 5.2).

1. Sample: a relational requirement and a gold node that meets it, as for questions by rules.
2. Extract: what the gold node's text meets, each with its source.
3. Fuse the relational requirement and those of the text to a query; another model rewrites it.
4. Verify: every candidate is asked of every verifier, and is an answer where all find all requirements met.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import SecretStr

from kbnav.errors import CredentialsError, StopRun, UsageError
from kbnav.evaluation.synthesis.sampling import Drawn, Dropped, Sampler, SplitSizes, needs_more
from kbnav.evaluation.synthesis.templates import SynthesisReport, Synthesized
from kbnav.evaluation.synthesis.wording import RoleWords, Style, Wording, is_literal
from kbnav.knowledge.skb.rendering import paragraphs
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import ModelCalls, Replies, open_calls
from kbnav.models.prices import cost_of, known_prices
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trajectory import Trace, Usage
from kbnav.settings.model import OFFLINE, Price, Settings

MOST = 50
"""Candidates of a question that are verified, beside the gold node."""
_LONGEST = {"requirements": 20, "short": 14, "properties": 14}
"""Words of a need at most; the prompts ask for fewer."""
_ITEM = 60
"""Letters of a list's item from which on it is a paragraph by itself."""


@dataclass(frozen=True)
class _Need:
    """One thing that the text of a node meets, and the paragraph that says so; ``hard`` can be checked by anybody."""

    text: str
    source: str = ""
    strength: Literal["hard", "soft", ""] = ""


@dataclass(frozen=True)
class _Document:
    """A node as the prompts show it: its name, and the paragraphs of its text, each with a label of its own."""

    kind: str
    name: str
    paragraphs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, skb: SKB, node: int) -> _Document:
        """The document of a node, of STaRK's SKBs as in appendix C.1, without other names and neighbours."""
        fields = {name: value for name, value in skb.documents[node].items() if name not in skb.meta.alias_fields}
        kind = skb.type(node).replace("_", " ").lower()
        found = _paragraphs("", fields) if skb.meta.style == "plain" else paragraphs(skb, node)
        kept = (one for one in found if one[0] not in skb.meta.alias_fields)
        return cls(kind, skb.name(node), tuple(kept))

    def values(self) -> dict[str, Any]:
        return {"kind": self.kind, "title": self.name, "paragraphs": self.paragraphs}

    def source(self, cited: str) -> str:
        wanted = re.sub(r"[#\[\]\s]", "", cited).lower()
        for label, _ in self.paragraphs:
            own = re.sub(r"[#\s]", "", label).lower()
            if wanted and (own == wanted or own.startswith((f"{wanted}.", f"{wanted}-"))):
                return label
        raise Malformed(f"there is no paragraph labelled {cited!r}")

    def need(self, style: Style, text: str, source: str, strength: Any = "") -> _Need:
        text = text.strip().rstrip(".")
        if not text or len(text.split()) > _LONGEST[style]:
            raise Malformed(f"{text!r} is not a short phrase" if text else "a phrase is empty")
        if self.name and is_literal(self.name, text):
            raise Malformed(f"{text!r} has the name of the {self.kind}")
        return _Need(text, self.source(source) if style != "short" else "", strength)


def _paragraphs(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Paragraphs with labels: ``details.summary`` of nested fields, ``reviews-#3`` of lists."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paragraphs(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) or len(str(one)) > _ITEM for one in value):
        for number, inner in enumerate(value, 1):
            text = "; ".join(f"{name}: {part}" for name, part in inner.items()) if isinstance(inner, Mapping) else inner
            yield from _paragraphs(f"{prefix}-#{number}", str(text))
    else:
        text = "; ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        if text.strip():
            yield prefix, " ".join(text.split())


@dataclass(frozen=True)
class _Draft:
    """A question under way: its role, the relations in words, and what the models made of it so far."""

    drawn: Drawn
    names: Sequence[str]
    document: _Document
    role: str
    role_words: RoleWords
    relational: str
    clauses: Sequence[str]
    needs: tuple[_Need, ...] = ()
    category: str = ""
    negative: tuple[_Need, ...] = ()
    used: tuple[int, ...] = ()
    fused: str = ""
    query: str = ""

    @property
    def used_needs(self) -> list[_Need]:
        return [self.needs[place] for place in self.used]


def synthesize_with_models(
    skb: SKB,
    wanted: SplitSizes,
    wording: Wording,
    models: PipelineModels,
    *,
    most: int = MOST,
    enough: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> tuple[list[Synthesized], SynthesisReport]:
    """Questions in the order they were found, with the report; ``enough`` is asked between two and may end it.

    Raises UsageError as ``Sampler``, and StopRun where a model cannot be asked; what was replied is kept, so that the
    same call goes on.
    """
    maker = _Maker(skb, wanted, wording, models, most)
    found = maker.sampler.collect(maker.make, progress, enough)
    maker.sampler.report.pipeline = maker.report()
    return found, maker.sampler.report


class _Maker:
    def __init__(self, skb: SKB, wanted: SplitSizes, wording: Wording, models: PipelineModels, most: int) -> None:
        self.sampler = Sampler(skb, wanted, wording)
        self._skb, self._wording, self._models, self._most, self._seed = skb, wording, models, most, wanted.seed
        self._style = wording.models.style
        self._failed: set[int] = set()
        """Gold nodes that would fail again."""
        self._gold = dict.fromkeys(("verified", "passed"), 0)
        self._passed_by_model = dict.fromkeys(models.steps.verify, 0)
        self._candidates = dict.fromkeys(("verified", "accepted", "verifiers_disagreed", "left_out_by_the_cap"), 0)
        """Those beyond the cap were not verified; they are no answers, nor are those that verifiers disagreed on."""

    def make(self, drawn: Drawn) -> Synthesized:
        """A question of what was drawn. Raises Dropped, and StopRun as the models do."""
        if drawn.gold in self._failed:
            raise Dropped("gold node was given up before")
        try:
            return self._as_question(self._begin(drawn))
        except NoUsableReply as error:
            self._failed.add(drawn.gold)
            raise Dropped(f"{error.step}: no reply in the form after a retry") from error

    def report(self) -> dict[str, Any]:
        """What the report says of the models' part; ``precision`` of gold nodes is STaRK's measure of verification."""
        gold, steps = self._gold, self._models.steps
        precision = gold["passed"] / gold["verified"] if gold["verified"] else None
        return {
            "models": {**vars(steps), "verify": list(steps.verify)},
            "style": self._style,
            "prompts": prompt_hashes("synthesis", f"synthesis/{self._style}"),
            "gold": {**gold, "precision": precision, "passed_by_model": self._passed_by_model},
            "candidates": {**self._candidates, "cap": self._most},
            "spent": self._models.report(),
        }

    def _begin(self, drawn: Drawn) -> _Draft:
        chance = random.Random(f"{self._seed} {drawn.gold} {drawn.template}")
        roles = self._wording.models.of(drawn.template.answer)
        role = chance.choice(sorted(roles)) if roles else "somebody who works in the field"
        names = self.sampler.names(drawn)
        relational, clauses = self._wording.question(drawn.template, names, "", chance)
        document = _Document.of(self._skb, drawn.gold)
        return _Draft(drawn, names, document, role, roles.get(role, RoleWords()), relational, clauses)

    def _as_question(self, draft: _Draft) -> Synthesized:
        drawn, sampler = draft.drawn, self.sampler
        if sampler.has_text(drawn):
            prompt = render(f"synthesis/{self._style}/extract.md", **draft.document.values(), **self._role(draft))
            draft = self._models.ask("extract", prompt, lambda reply: _read_extracted(self._style, draft, reply))
        draft = self._with_query(draft)
        answers, left_out = drawn.requirement.candidates.tolist(), 0
        if draft.used:
            answers, left_out = self._verified(draft)
            if not needs_more(len(drawn.requirement.candidates) - left_out, len(answers)):
                raise Dropped("verify: the text leaves out too few of the candidates")
        sampler.check_answers(drawn, answers)
        return replace(
            sampler.keep(drawn, draft.query, answers),
            text="; ".join(need.text for need in draft.used_needs),
            text_source="; ".join(need.source for need in draft.used_needs),
            worded_by="models",
            pipeline={
                "relational": draft.relational,
                "needs": [vars(need) for need in draft.needs],
                "used": list(draft.used),
                "category": draft.category,
                "negative": [vars(need) for need in draft.negative],
                "role": draft.role,
                "fused": draft.fused,
                "not_verified": left_out,
            },
        )

    def _with_query(self, draft: _Draft) -> _Draft:
        """The draft with its query, fused and rewritten."""
        kind, unspoken = draft.document.kind, self._wording.models.unspoken
        kept_out = (draft.document.name, *unspoken)
        if not draft.needs and self._style == "short":  # nothing to put together
            used, fused = draft.used, draft.relational
        else:
            first = len(draft.needs) + 1
            prompt = render(
                f"synthesis/{self._style}/fuse.md",
                item=draft.category or f"a {kind}",
                kind=kind,
                question=draft.relational,
                needs=[need.text for need in draft.needs],
                relations=draft.clauses,
                negative=[need.text for need in draft.negative],
                fixed=", ".join(map(str, range(first, first + len(draft.clauses)))),
                names=draft.names,
                unspoken=unspoken,
                **self._role(draft),
            )
            used, fused = self._models.ask(
                "fuse", prompt, lambda reply: _read_fused(self._style, draft, reply, kept_out)
            )
        values = {"kind": kind, "query": fused, "names": draft.names, **self._role(draft)}
        prompt = render(f"synthesis/{self._style}/rewrite.md", **values)
        query = self._models.ask("rewrite", prompt, lambda reply: _read_query(reply, draft.names, kept_out))
        return replace(draft, used=used, fused=fused, query=query)

    def _role(self, draft: _Draft) -> dict[str, Any]:
        return {
            "role": draft.role,
            "instruction": draft.role_words.about,
            "example": draft.role_words.example,
            "count": self._wording.models.count,
            "plural": self._wording.plural(draft.drawn.template.answer, random.Random(0)),
        }

    def _verified(self, draft: _Draft) -> tuple[list[int], int]:
        """The answers, and how many candidates were not verified."""
        gold, counts = draft.drawn.gold, self._candidates
        self._gold["verified"] += 1
        passed = {model: self._meet(model, draft, [gold])[0] for model in self._models.steps.verify}
        for model, met in passed.items():
            self._passed_by_model[model] += met
        if not all(passed.values()):
            self._failed.add(gold)
            raise Dropped("verify: the gold node does not pass")
        self._gold["passed"] += 1
        others = self._nearest(draft)
        left_out = len(draft.drawn.requirement.candidates) - 1 - len(others)
        votes = [self._meet(model, draft, others) for model in self._models.steps.verify]
        accepted = [node for node, found in zip(others, zip(*votes, strict=True), strict=True) if all(found)]
        counts["verified"] += len(others)
        counts["accepted"] += len(accepted)
        counts["verifiers_disagreed"] += sum(any(found) and not all(found) for found in zip(*votes, strict=True))
        counts["left_out_by_the_cap"] += left_out
        return sorted([gold, *accepted]), left_out

    def _nearest(self, draft: _Draft) -> list[int]:
        """The candidates that are verified: where they are too many, those most like the text that the needs are of.

        The needs' own words are other ones, by which nodes would be found that only speak alike.
        """
        others = [node for node in draft.drawn.requirement.candidates.tolist() if node != draft.drawn.gold]
        if len(others) <= self._most:
            return others
        sources = {need.source for need in draft.used_needs}
        text = " ".join(part for source, part in draft.document.paragraphs if source in sources or not any(sources))
        ranges, wanted = [self._skb.type_range(draft.drawn.template.answer)], set(others)
        found = [node for node, _ in self.sampler.index.search(text, limit=20_000, ranges=ranges) if node in wanted]
        return sorted(list(dict.fromkeys([*found, *others]))[: self._most])

    def _meet(self, model: str, draft: _Draft, nodes: Sequence[int]) -> list[bool]:
        """Whether each node meets all requirements of the text, as a model sees it. Raises NoUsableReply."""
        documents = [_Document.of(self._skb, node) for node in nodes]
        left = list(range(len(nodes)))
        if draft.category:
            asked = [
                render("synthesis/requirements/category.md", item=draft.category, **one.values()) for one in documents
            ]
            kinds = self._models.ask_many("category", model, asked, [_read_category] * len(asked))
            left = [place for place in left if kinds[place]]
        needs = [need.text for need in draft.used_needs]
        prompts = [render("synthesis/verify.md", needs=needs, **documents[place].values()) for place in left]
        readers = [_verdict_reader(documents[place], len(needs)) for place in left]
        met = self._models.ask_many("verify", model, prompts, readers) if left else []
        passed = dict(zip(left, met, strict=True))
        return [passed.get(place, False) for place in range(len(nodes))]


def _read_extracted(style: Style, draft: _Draft, reply: str) -> _Draft:
    """The draft with what was read in the gold node's text. Raises Malformed."""
    document = draft.document
    if style == "short":
        return replace(draft, needs=(document.need(style, _one_line(reply).rstrip("."), ""),))
    found = _json(reply)
    if style == "properties":
        pairs = _pairs(found, "a list of pairs")
        return replace(draft, needs=tuple(document.need(style, text, source) for text, source in pairs))
    if not isinstance(found, dict) or not str(found.get("item") or "").strip():
        raise Malformed('it is no object with "item", "negative", "hard" and "soft"')
    needs = [
        document.need(style, text, source, strength)
        for strength in ("hard", "soft")
        for source, text in _pairs(found.get(strength) or [], f'"{strength}"')[:5]
    ]
    if not needs:
        raise Malformed('there is nothing in "hard" and "soft"')
    negative = _pairs(found.get("negative") or [], '"negative"')
    category = str(found["item"]).strip()
    if document.name and is_literal(document.name, category):
        raise Malformed(f'"item" has the name of the {document.kind}')
    against = tuple(_Need(text, document.source(source)) for source, text in negative)
    return replace(draft, needs=tuple(needs), category=category, negative=against)


def _read_fused(style: Style, draft: _Draft, reply: str, kept_out: Collection[str]) -> tuple[tuple[int, ...], str]:
    """The places of the needs that are used, from 0, and the query. Raises Malformed."""
    needs, last = len(draft.needs), len(draft.needs) + len(draft.clauses)
    if style != "requirements":
        return tuple(range(needs)), _read_query(reply, draft.names, kept_out)
    found = _json(reply)
    fields = (found.get("index"), found.get("query")) if isinstance(found, dict) else (None, None)
    if not isinstance(fields[0], list) or not isinstance(fields[1], str):
        raise Malformed('it is no object with "index" and "query"')
    chosen = {one for one in fields[0] if isinstance(one, int)}
    if not chosen <= set(range(1, last + 1)):
        raise Malformed(f"the needs are numbered from 1 to {last}")
    if not set(range(needs + 1, last + 1)) <= chosen:
        raise Malformed(f"the needs from {needs + 1} on must be in it")
    used = tuple(one - 1 for one in sorted(chosen) if one <= needs)
    if needs and not used:
        raise Malformed(f"none of the needs 1 to {needs} is in it")
    return used, _read_query(fields[1], draft.names, kept_out)


def _read_query(reply: str, names: Sequence[str], kept_out: Collection[str]) -> str:
    """A query on one line that has all names, and nothing of what it may not have. Raises Malformed."""
    text = _one_line(reply).strip('"“”')
    absent = [name for name in names if name.casefold() not in text.casefold()]
    if absent:
        raise Malformed(f"the name {absent[0]!r} does not stand in it letter by letter")
    wrong = [one for one in kept_out if one and is_literal(one, text)]
    if wrong:
        raise Malformed(f"it says {wrong[0]!r}")
    return text


def _read_category(reply: str) -> bool:
    found = re.sub(r"\W+", "", reply).lower()
    if found not in ("yes", "no"):
        raise Malformed("it is neither yes nor no")
    return found == "yes"


def _verdict_reader(document: _Document, needs: int) -> Callable[[str], bool]:
    """Reads whether every need is met: where at least one label that the document has is cited. Raises Malformed."""

    def read(reply: str) -> bool:
        found = _json(reply)
        if not isinstance(found, dict):
            raise Malformed("it is no object")
        met = True
        for number in map(str, range(1, needs + 1)):
            if number not in found:
                raise Malformed(f"it lacks requirement {number}")
            cited = found[number]
            sources = [str(one).strip() for one in (cited if isinstance(cited, list) else [cited] if cited else [])]
            labels = [document.source(one) for one in sources if one.upper() not in ("", "NA", "N/A", "NONE")]
            met = met and bool(labels)
        return met

    return read


def _pairs(found: Any, what: str) -> list[tuple[str, str]]:
    good = isinstance(found, list) and all(
        isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one) for one in found
    )
    if not good:
        raise Malformed(f"{what} is no list of pairs of texts")
    return [(one[0], one[1]) for one in found]


def _json(reply: str) -> Any:
    found = re.search(r"[\[{].*[\]}]", reply, re.DOTALL)
    try:
        return json.loads(found[0] if found else reply)
    except ValueError as error:
        raise Malformed(f"it is not JSON ({error})") from error


def _one_line(reply: str) -> str:
    text = reply.strip()
    if not text or "\n" in text:
        raise Malformed("it is not one line")
    return text


Step = Literal["extract", "fuse", "rewrite", "category", "verify"]
T = TypeVar("T")


class Malformed(ValueError):
    """A reply that is not in the form that was asked for; the text says what is wrong with it."""


class NoUsableReply(Exception):
    """A step that has no usable reply after its retry."""

    def __init__(self, step: Step, problem: str) -> None:
        super().__init__(problem)
        self.step = step


@dataclass(frozen=True)
class StepModels:
    """Which model does which step; each is a name, or ``NAME@URL`` or ``NAME@ENDPOINT`` for one of its own."""

    extract: str
    fuse: str
    rewrite: str
    verify: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.verify or not all(self.models):
            raise UsageError("each step of the pipeline needs a model")
        if len(set(self.verify)) < len(self.verify):
            raise UsageError("the models that verify are to be different ones: the same would always agree")

    @property
    def models(self) -> tuple[str, ...]:
        """Of all steps."""
        return (self.extract, self.fuse, self.rewrite, *self.verify)


@dataclass
class PipelineModels:
    """The models at work. ``open`` makes one by its name; ``prices`` gives what it costs, where that is known."""

    steps: StepModels
    open: Callable[[str], ModelCalls]
    prices: Mapping[str, Price] = field(default_factory=dict)
    _spent: defaultdict[tuple[Step, str], Usage] = field(default_factory=partial(defaultdict, Usage))
    _retries: Counter[tuple[Step, str]] = field(default_factory=Counter)

    def ask(self, step: Literal["extract", "fuse", "rewrite"], prompt: str, read: Callable[[str], T]) -> T:
        """One reply of the step's model, as ``read`` understands it. Raises NoUsableReply and StopRun."""
        return self.ask_many(step, getattr(self.steps, step), [prompt], [read])[0]

    def ask_many(
        self, step: Step, model: str, prompts: Sequence[str], readers: Sequence[Callable[[str], T]]
    ) -> list[T]:
        """Replies to several prompts of one model, side by side; those not in the form are asked for once more.

        Readers raise Malformed. Raises NoUsableReply, and StopRun where a call fails: what was answered is kept.
        """
        found: dict[int, T] = {}
        again: dict[int, str] = {}
        for place, reply in enumerate(self._replies(step, model, prompts)):
            try:
                found[place] = readers[place](reply)
            except Malformed as error:
                again[place] = render("synthesis/again.md", prompt=prompts[place], reply=reply, problem=str(error))
        self._retries[step, model] += len(again)
        for place, reply in zip(again, self._replies(step, model, list(again.values())), strict=True):
            try:
                found[place] = readers[place](reply)
            except Malformed as error:
                raise NoUsableReply(step, str(error)) from error
        return [found[place] for place in range(len(prompts))]

    @property
    def dollars(self) -> float | None:
        """What was paid so far; None where a model's price is not known."""
        costs = [self._dollars(model, spent) for (_, model), spent in self._spent.items()]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None

    def report(self) -> dict[str, dict[str, object]]:
        """By step and model, what was asked and paid."""
        return {
            f"{step} {model}": {
                "calls": spent.calls,
                "kept_from_before": spent.kept,
                "retries": self._retries[step, model],
                "tokens_read": spent.prompt,
                "tokens_written": spent.completion,
                "dollars": self._dollars(model, spent),
            }
            for (step, model), spent in self._spent.items()
        }

    def _dollars(self, model: str, spent: Usage) -> float | None:
        return cost_of(spent, model_price(model, self.prices))

    def _replies(self, step: Step, model: str, prompts: Sequence[str]) -> list[str]:
        trace = Trace()
        try:
            replies = self.open(model).ask_many(prompts, trace, purpose=step)
        finally:
            self._spent[step, model] += trace.usage
        failed = next((reply for reply in replies if isinstance(reply, StopRun)), None)
        if failed:
            raise failed
        return [str(reply) for reply in replies]


def model_price(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, as it is called at its endpoint or, where that has none, anywhere."""
    return prices.get(model) or prices.get(model.rpartition("@")[0])


def open_models(steps: StepModels, settings: Settings, replies: Path) -> PipelineModels:
    """The models, whose replies are kept in a file, so that a synthesis that was killed goes on.

    Raises UsageError, CredentialsError where the key of a model's endpoint is not set; that of the settings' endpoint
    is missed when a model is first asked.
    """
    asked = {model: _at_endpoint(settings, model) for model in steps.models}
    if any(one.model == OFFLINE for one in asked.values()):
        raise UsageError("the pipeline needs language models: offline is none")
    kept = Replies(replies)
    return PipelineModels(steps, cache(lambda model: open_calls(asked[model], kept)), known_prices(settings))


def _at_endpoint(settings: Settings, model: str) -> Settings:
    """The settings to ask a model with, ``NAME``, ``NAME@URL`` or ``NAME@ENDPOINT`` of ``model_endpoints``.

    One with an endpoint of its own is sent that endpoint's key, and none where it has none: the key of the settings
    belongs to theirs. Raises CredentialsError where the variable of a key is not set.
    """
    name, _, where = model.rpartition("@")
    by_url = {one.url.rstrip("/"): one for one in settings.model_endpoints.values()}
    found = settings.model_endpoints.get(where) or by_url.get(where.rstrip("/"))
    if not name or not (found or where.startswith("http")):  # the name itself may have an @
        return settings.model_copy(update={"model": model})
    key = os.environ.get(found.key_variable, "") if found and found.key_variable else ""
    if found and found.key_variable and not key:
        raise CredentialsError(f"{model}: the environment variable {found.key_variable} with its key is not set")
    url = found.url if found else where
    return settings.model_copy(update={"model": name, "base_url": url, "api_key": SecretStr(key)})
