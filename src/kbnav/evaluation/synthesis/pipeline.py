"""Synthesizing questions by language models in four steps (STaRK, section 2.4; Agent Retriever, section 5.2).

1. Sample: a relational requirement and a gold node that meets it, as for questions by rules.
2. Extract: what the gold node's text meets, each with its source.
3. Fuse the relational requirement and those of the text to a query; another model rewrites it.
4. Verify: every candidate is asked of every verifier, and is an answer where all find all requirements met.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from kbnav.evaluation.synthesis.models import Casting, Crew, GivenUp, Malformed, Step, price_of
from kbnav.evaluation.synthesis.sampling import DRAWS, Drawn, Sampler, Wanted, needs_more
from kbnav.evaluation.synthesis.templates import Report, Synthesized
from kbnav.evaluation.synthesis.text import is_literal
from kbnav.evaluation.synthesis.wording import RoleWords, Style, Wording
from kbnav.knowledge.skb.store import SKB
from kbnav.models.calls import BYTES_PER_TOKEN
from kbnav.models.prices import cost_of
from kbnav.prompts import prompt_hashes, render
from kbnav.runs.trajectory import Usage
from kbnav.settings.model import Price

LONGEST = {"requirements": 20, "short": 14, "properties": 14}
"""Words of a need at most; the prompts ask for fewer."""
Met = tuple[bool, ...]
"""Of each need, whether a verifier found it met."""


@dataclass(frozen=True)
class Need:
    """One thing that the text of a node meets, and the paragraph that says so; ``hard`` can be checked by anybody."""

    text: str
    source: str = ""
    strength: Literal["hard", "soft", ""] = ""


@dataclass(frozen=True)
class Extracted:
    """What a model found in the text of a gold node; ``category`` and ``negative`` in the style ``requirements``."""

    needs: tuple[Need, ...]
    category: str = ""
    negative: tuple[Need, ...] = ()


@dataclass(frozen=True)
class Document:
    """A node as the prompts show it: its name, and the paragraphs of its text, each with a label of its own."""

    kind: str
    name: str
    paragraphs: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, skb: SKB, node: int) -> Document:
        """The document of a node. Other names are left out: no need may be taken from them."""
        fields = {name: value for name, value in skb.documents[node].items() if name not in skb.meta.alias_fields}
        kind = skb.type_name(node).replace("_", " ").lower()
        return cls(kind, skb.nodes.label(node), tuple(_paragraphs("", fields)))

    def values(self) -> dict[str, Any]:
        """For a prompt."""
        return {"kind": self.kind, "title": self.name, "paragraphs": self.paragraphs}

    def source(self, cited: str) -> str:
        """The label that a model means. Raises Malformed where there is none."""
        wanted = re.sub(r"[#\[\]\s]", "", cited).lower()
        for label, _ in self.paragraphs:
            own = re.sub(r"\s", "", label).lower()
            if wanted and (own == wanted or own.startswith((f"{wanted}.", f"{wanted}-"))):
                return label
        raise Malformed(f"there is no paragraph labelled {cited!r}")


def extract_prompt(style: Style, document: Document, told: Mapping[str, Any]) -> str:
    """Asks for what the text of a gold node meets; ``told`` are a role and the number of properties."""
    return render(f"synthesis/{style}/extract.md", **document.values(), **told)


def read_extracted(style: Style, document: Document, reply: str) -> Extracted:
    """Raises Malformed."""
    if style == "short":
        text = _one_line(reply).rstrip(".")
        return Extracted((_need(style, document, text, ""),))
    found = _json(reply)
    if style == "properties":
        pairs = _pairs(found, "a list of pairs")
        return Extracted(tuple(_need(style, document, text, source) for text, source in pairs))
    if not isinstance(found, dict) or not str(found.get("item") or "").strip():
        raise Malformed('it is no object with "item", "negative", "hard" and "soft"')
    needs = [
        _need(style, document, text, source, strength)
        for strength in ("hard", "soft")
        for source, text in _pairs(found.get(strength) or [], f'"{strength}"')[:5]
    ]
    if not needs:
        raise Malformed('there is nothing in "hard" and "soft"')
    negative = [
        Need(text, document.source(source)) for source, text in _pairs(found.get("negative") or [], '"negative"')
    ]
    category = str(found["item"]).strip()
    if _names(document.name, category):
        raise Malformed(f'"item" has the name of the {document.kind}')
    return Extracted(tuple(needs), category, tuple(negative))


def read_fused(
    style: Style, reply: str, *, needs: int, relations: int, names: Sequence[str], kept_out: Collection[str]
) -> tuple[tuple[int, ...], str]:
    """The places of the needs that are used, from 0, and the query. Raises Malformed.

    ``kept_out`` are the gold node's name and what relations may not be told as.
    """
    if style != "requirements":
        return tuple(range(needs)), read_query(reply, names, kept_out)
    found = _json(reply)
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("index"), list)
        or not isinstance(found.get("query"), str)
    ):
        raise Malformed('it is no object with "index" and "query"')
    chosen = {one for one in found["index"] if isinstance(one, int)}
    if not chosen <= set(range(1, needs + relations + 1)):
        raise Malformed(f"the needs are numbered from 1 to {needs + relations}")
    if not set(range(needs + 1, needs + relations + 1)) <= chosen:
        raise Malformed(f"the needs from {needs + 1} on must be in it")
    used = tuple(one - 1 for one in sorted(chosen) if one <= needs)
    if needs and not used:
        raise Malformed(f"none of the needs 1 to {needs} is in it")
    return used, read_query(found["query"], names, kept_out)


def read_query(reply: str, names: Sequence[str], kept_out: Collection[str]) -> str:
    """A query on one line that has all names, and nothing of what it may not have. Raises Malformed."""
    text = _one_line(reply).strip('"“”')
    absent = [name for name in names if name.casefold() not in text.casefold()]
    if absent:
        raise Malformed(f"the name {absent[0]!r} does not stand in it letter by letter")
    wrong = [one for one in kept_out if one and is_literal(one, text)]
    if wrong:
        raise Malformed(f"it says {wrong[0]!r}")
    return text


def read_category(reply: str) -> bool:
    """Yes or no. Raises Malformed."""
    return _truth(reply, "yes", "no")


def read_verified(document: Document, needs: int, reply: str) -> Met:
    """For each need whether it is met: where at least one label that the document has is cited. Raises Malformed."""
    found = _json(reply)
    if not isinstance(found, dict):
        raise Malformed("it is no object")
    met = []
    for number in range(1, needs + 1):
        if str(number) not in found:
            raise Malformed(f"it lacks requirement {number}")
        cited = found[str(number)]
        sources = [str(one) for one in (cited if isinstance(cited, list) else [cited] if cited else [])]
        sources = [one for one in sources if one.strip().upper() not in ("", "NA", "N/A", "NONE")]
        met.append(bool([document.source(one) for one in sources]))
    return tuple(met)


def _paragraphs(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Paragraphs with labels: ``details.summary`` of nested fields, ``reviews-3`` of lists."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _paragraphs(f"{prefix}.{name}" if prefix else str(name), inner)
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) or len(str(one)) > _ITEM for one in value):
        for number, inner in enumerate(value, 1):
            told = "; ".join(f"{name}: {part}" for name, part in inner.items()) if isinstance(inner, Mapping) else inner
            yield from _paragraphs(f"{prefix}-{number}", str(told))
    else:
        text = "; ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        if text.strip():
            yield prefix, " ".join(text.split())


_ITEM = 60
"""Letters of a list's item from which on it is a paragraph by itself."""


def _need(style: Style, document: Document, text: str, source: str, strength: Any = "") -> Need:
    text = text.strip().rstrip(".")
    if not text or len(text.split()) > LONGEST[style]:
        raise Malformed(f"{text!r} is not a short phrase" if text else "a phrase is empty")
    if _names(document.name, text):
        raise Malformed(f"{text!r} has the name of the {document.kind}")
    return Need(text, document.source(source) if style != "short" else "", strength)


def _names(name: str, text: str) -> bool:
    return bool(name) and is_literal(name, text)


def _pairs(found: Any, what: str) -> list[tuple[str, str]]:
    good = isinstance(found, list) and all(
        isinstance(one, list) and len(one) == 2 and all(isinstance(part, str) for part in one) for one in found
    )
    if not good:
        raise Malformed(f"{what} is no list of pairs of texts")
    return [(one[0], one[1]) for one in found]


def _json(reply: str) -> Any:
    """The JSON in a reply, fenced or not. Raises Malformed."""
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


def _truth(reply: str, yes: str, no: str) -> bool:
    said = re.sub(r"\W+", "", reply).lower()
    if said not in (yes, no):
        raise Malformed(f"it is neither {yes} nor {no}")
    return said == yes


T = TypeVar("T")
MOST = 50
"""Candidates of a question that are verified, beside the gold node."""


@dataclass
class Verification:
    """What verification found, over all questions."""

    gold: int = 0
    """Gold nodes that were verified."""
    gold_passed: int = 0
    """Those that all verifiers found to meet all requirements of the text."""
    gold_by_model: dict[str, int] = field(default_factory=dict)
    candidates: int = 0
    accepted: int = 0
    disagreed: int = 0
    """Candidates that some verifiers accepted and others did not; they are no answers."""
    left_out: int = 0
    """Candidates beyond the cap, which nobody looked at and which are no answers."""

    @property
    def precision(self) -> float | None:
        """The share of gold nodes that pass, by which STaRK judges its verification; None before the first."""
        return self.gold_passed / self.gold if self.gold else None


@dataclass(frozen=True)
class _Draft:
    """A question under way."""

    drawn: Drawn
    document: Document
    role: str
    role_words: RoleWords
    relational: str
    clauses: tuple[str, ...]
    extracted: Extracted = Extracted(())
    used: tuple[int, ...] = ()
    fused: str = ""
    query: str = ""

    @property
    def needs(self) -> list[Need]:
        """The requirements of the text that are in the query."""
        return [self.extracted.needs[place] for place in self.used]


class _Dropped(Exception):
    """Why a question was given up."""


def synthesize_with_models(
    skb: SKB,
    wanted: Wanted,
    wording: Wording,
    crew: Crew,
    *,
    most: int = MOST,
    enough: Callable[[], bool] = lambda: False,
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005
) -> tuple[list[Synthesized], Report]:
    """Questions in the order they were found, with the report; ``enough`` is asked between two and may end it.

    Raises UsageError as ``Sampler``, and StopRun where a model cannot be asked; what was replied is kept, so that the
    same call goes on.
    """
    maker = _Maker(skb, wanted, wording, crew, most)
    total = wanted.test + wanted.train + wanted.val
    found: list[Synthesized] = []
    for _ in range(DRAWS * total):
        if len(found) == total or enough():
            break
        question = maker.attempt()
        if question:
            found.append(question)
            progress(len(found), total)
    maker.sampler.report.pipeline = maker.told()
    return found, maker.sampler.report


class _Maker:
    """Takes one requirement after the other through the steps."""

    def __init__(self, skb: SKB, wanted: Wanted, wording: Wording, crew: Crew, most: int) -> None:
        self.sampler = Sampler(skb, wanted, wording)
        self._skb, self._wording, self._crew, self._most = skb, wording, crew, most
        self._style, self._seed = wording.models.style, wanted.seed
        self._failed: set[int] = set()
        """Gold nodes of which the same would be said again."""
        self.verification = Verification(gold_by_model=dict.fromkeys(crew.casting.verify, 0))

    def attempt(self) -> Synthesized | None:
        """Draw, and make a question of it; None where it is dropped, which the report counts."""
        drawn = self.sampler.draw()
        if drawn is None:
            return None
        if drawn.gold in self._failed:
            self.sampler.report.drop("gold node was given up before")
            return None
        try:
            return self._made(begin(self.sampler, self._wording, drawn, self._seed))
        except GivenUp as error:
            self._failed.add(drawn.gold)
            self.sampler.report.drop(f"{error.step}: no reply in the form after a retry")
        except _Dropped as error:
            self.sampler.report.drop(str(error))
        return None

    def told(self) -> dict[str, Any]:
        """What the report says of the models' part."""
        found, casting = self.verification, self._crew.casting
        return {
            "models": {"extract": casting.extract, "fuse": casting.fuse, "rewrite": casting.rewrite}
            | {"verify": list(casting.verify)},
            "style": self._style,
            "prompts": prompt_hashes("synthesis", f"synthesis/{self._style}"),
            "gold": {
                "verified": found.gold,
                "passed": found.gold_passed,
                "precision": found.precision,
                "passed_by_model": found.gold_by_model,
            },
            "candidates": {
                "verified": found.candidates,
                "accepted": found.accepted,
                "verifiers_disagreed": found.disagreed,
                "left_out_by_the_cap": found.left_out,
                "cap": self._most,
            },
            "spent": self._crew.report(),
        }

    def _made(self, draft: _Draft) -> Synthesized:
        drawn, sampler = draft.drawn, self.sampler
        if sampler.has_text(drawn):
            draft = self._extracted(draft)
        draft = self._worded(draft)
        if draft.needs:
            answers, left_out = self._verified(draft)
        else:
            answers, left_out = drawn.requirement.candidates.tolist(), 0
        if draft.needs and not needs_more(len(drawn.requirement.candidates) - left_out, len(answers)):
            raise _Dropped("verify: the text leaves out too few of the candidates")
        if fault := sampler.leak(drawn, answers):
            raise _Dropped(fault)
        if sampler.names_answer(draft.query, answers):
            raise _Dropped("the question names an answer")
        made = replace(
            sampler.record(drawn, draft.query, answers),
            text="; ".join(need.text for need in draft.needs),
            text_source="; ".join(need.source for need in draft.needs),
            worded_by="models",
            pipeline={
                "relational": draft.relational,
                "needs": [vars(need) for need in draft.extracted.needs],
                "used": list(draft.used),
                "category": draft.extracted.category,
                "negative": [vars(need) for need in draft.extracted.negative],
                "role": draft.role,
                "fused": draft.fused,
                "not_verified": left_out,
            },
        )
        sampler.keep(drawn, answers)
        return made

    def _extracted(self, draft: _Draft) -> _Draft:
        style, document = self._style, draft.document
        prompt = extract_prompt(style, document, self._role(draft))
        found = self._crew.ask("extract", prompt, lambda reply: read_extracted(style, document, reply))
        return replace(draft, extracted=found)

    def _worded(self, draft: _Draft) -> _Draft:
        names, needs = self.sampler.names(draft.drawn), [need.text for need in draft.extracted.needs]
        kept_out = (draft.document.name, *self._wording.models.unspoken)
        if not needs and self._style == "short":  # nothing to put together
            return replace(draft, fused=draft.relational, query=self._rewritten(draft, draft.relational))
        fixed = range(len(needs) + 1, len(needs) + len(draft.clauses) + 1)
        prompt = render(
            f"synthesis/{self._style}/fuse.md",
            item=draft.extracted.category or f"a {draft.document.kind}",
            kind=draft.document.kind,
            question=draft.relational,
            needs=needs,
            relations=draft.clauses,
            negative=[need.text for need in draft.extracted.negative],
            fixed=", ".join(map(str, fixed)),
            names=names,
            unspoken=self._wording.models.unspoken,
            **self._role(draft),
        )
        used, query = self._crew.ask(
            "fuse",
            prompt,
            lambda reply: read_fused(
                self._style, reply, needs=len(needs), relations=len(draft.clauses), names=names, kept_out=kept_out
            ),
        )
        draft = replace(draft, used=used, fused=query)
        return replace(draft, query=self._rewritten(draft, query))

    def _rewritten(self, draft: _Draft, query: str) -> str:
        names = self.sampler.names(draft.drawn)
        kept_out = (draft.document.name, *self._wording.models.unspoken)
        values = {"kind": draft.document.kind, "query": query, "names": names, **self._role(draft)}
        prompt = render(f"synthesis/{self._style}/rewrite.md", **values)
        return self._crew.ask("rewrite", prompt, lambda reply: read_query(reply, names, kept_out))

    def _verified(self, draft: _Draft) -> tuple[list[int], int]:
        """The answers, and how many candidates were not looked at."""
        gold = draft.drawn.gold
        self.verification.gold += 1
        passed = {model: self._meet(model, draft, [gold])[0] for model in self._crew.casting.verify}
        for model, met in passed.items():
            self.verification.gold_by_model[model] += met
        if not all(passed.values()):
            self._failed.add(gold)
            raise _Dropped("verify: the gold node does not pass")
        self.verification.gold_passed += 1
        others, left_out = self._nearest(draft)
        votes = [self._meet(model, draft, others) for model in self._crew.casting.verify]
        accepted = [node for node, said in zip(others, zip(*votes, strict=True), strict=True) if all(said)]
        self.verification.candidates += len(others)
        self.verification.accepted += len(accepted)
        self.verification.disagreed += sum(any(said) and not all(said) for said in zip(*votes, strict=True))
        self.verification.left_out += left_out
        return sorted([gold, *accepted]), left_out

    def _nearest(self, draft: _Draft) -> tuple[list[int], int]:
        """The candidates that are verified: where they are too many, those most like the text that the needs are of.

        The needs' own words are other ones, by which nodes would be found that only speak alike.
        """
        sources = {need.source for need in draft.needs}
        told = [text for source, text in draft.document.paragraphs if source in sources or not any(sources)]
        others = nearest(self.sampler, draft.drawn, " ".join(told), self._most)
        return others, len(draft.drawn.requirement.candidates) - 1 - len(others)

    def _meet(self, model: str, draft: _Draft, nodes: Sequence[int]) -> list[bool]:
        """Whether each node meets all requirements of the text, as a model sees it. Raises GivenUp."""
        documents = [Document.of(self._skb, node) for node in nodes]
        of_kind = [True] * len(nodes)
        if category := draft.extracted.category:
            prompts = [category_prompt(document, category) for document in documents]
            of_kind = _all(self._crew.ask_many("category", model, prompts, read_category))
        left = [place for place, is_one in enumerate(of_kind) if is_one]
        needs = [need.text for need in draft.needs]
        prompts = [verify_prompt(documents[place], needs) for place in left]
        readers = [_reader(documents[place], len(needs)) for place in left]
        met = _all(self._crew.ask_many("verify", model, prompts, readers)) if left else []
        passed = {place: all(one) for place, one in zip(left, met, strict=True)}
        return [passed.get(place, False) for place in range(len(nodes))]

    def _role(self, draft: _Draft) -> dict[str, Any]:
        words = draft.role_words
        return {
            "role": draft.role,
            "instruction": words.about,
            "example": words.example,
            "count": self._wording.models.count,
            "plural": self._wording.plural(draft.drawn.template.answer, random.Random(0)),
        }


def begin(sampler: Sampler, wording: Wording, drawn: Drawn, seed: int) -> _Draft:
    """What is known of a question before any model is asked: its role, and the relations in words."""
    chance = random.Random(f"{seed} {drawn.gold} {drawn.template}")
    roles = wording.models.of(drawn.template.answer)
    role = chance.choice(sorted(roles)) if roles else "somebody who works in the field"
    relational, clauses = wording.question(drawn.template, sampler.names(drawn), "", chance)
    document = Document.of(sampler.skb, drawn.gold)
    return _Draft(drawn, document, role, roles.get(role, RoleWords()), relational, tuple(clauses))


def nearest(sampler: Sampler, drawn: Drawn, text: str, most: int) -> list[int]:
    """At most so many candidates beside the gold node: those that a search for the text finds first."""
    others = [node for node in drawn.requirement.candidates.tolist() if node != drawn.gold]
    if len(others) <= most:
        return others
    ranges = [sampler.skb.type_range(drawn.template.answer)]
    wanted = set(others)
    found = [node for node, _ in sampler.index.search(text, limit=20_000, ranges=ranges) if node in wanted]
    return sorted(list(dict.fromkeys([*found, *others]))[:most])


def category_prompt(document: Document, category: str) -> str:
    """Asks whether a node is of the sort of thing that is looked for."""
    return render("synthesis/requirements/category.md", item=category, **document.values())


def verify_prompt(document: Document, needs: Sequence[str]) -> str:
    """Asks which of the requirements a node's text meets, and where it says so."""
    return render("synthesis/verify.md", needs=list(needs), **document.values())


def _reader(document: Document, needs: int) -> Callable[[str], Met]:
    return lambda reply: read_verified(document, needs, reply)


def _all(found: Sequence[T | GivenUp]) -> list[T]:
    """The replies. Raises the first GivenUp."""
    for one in found:
        if isinstance(one, GivenUp):
            raise one
    return [one for one in found if not isinstance(one, GivenUp)]


REPLY: Mapping[Step, int] = {"extract": 250, "fuse": 120, "rewrite": 80, "category": 3, "verify": 80}
"""Tokens of a reply, about."""
_SHORT_PROMPT = 500
"""Tokens of a prompt without a document, about."""
_NEEDS = ["a requirement that the text of a node has to meet"] * 4
"""Stands for what will be extracted."""


@dataclass(frozen=True)
class Estimate:
    """Calls and tokens of one step with one model; ``dollars`` is None where the model has no price."""

    step: Step
    model: str
    calls: int
    read: int
    written: int
    dollars: float | None

    def __str__(self) -> str:
        cost = "price not known" if self.dollars is None else f"${self.dollars:.2f}"
        return f"{self.step} {self.model}: {self.calls:,} calls, {self.read:,} + {self.written:,} tokens, {cost}"


def estimate(
    skb: SKB, wanted: Wanted, wording: Wording, casting: Casting, *, most: int, prices: Mapping[str, Price]
) -> list[Estimate]:
    """The cost of the questions that are wanted if none were dropped on the way; each that is costs as much again.

    A token is taken to be three bytes, which is rather too many tokens than too few. Raises UsageError as ``Sampler``.
    """
    sampler = Sampler(skb, wanted, wording)
    calls: dict[Step, int] = {}
    read: dict[Step, int] = {}

    def count(step: Step, tokens: Iterable[int]) -> None:
        for size in tokens:
            calls[step] = calls.get(step, 0) + 1
            read[step] = read.get(step, 0) + size

    total = made = wanted.test + wanted.train + wanted.val
    for _ in range(DRAWS * total):
        if not made:
            break
        drawn = sampler.draw()
        if drawn is None:
            continue
        made -= 1
        sampler.keep(drawn, [drawn.gold])
        count("fuse", [_SHORT_PROMPT])
        count("rewrite", [_SHORT_PROMPT])
        if not sampler.has_text(drawn):
            continue
        style, gold = wording.models.style, begin(sampler, wording, drawn, wanted.seed).document
        told = {"role": "", "instruction": "", "count": wording.models.count}
        count("extract", [_tokens(extract_prompt(style, gold, told))])
        asked = [gold, *(Document.of(skb, node) for node in nearest(sampler, drawn, "", most))]
        count("verify", (_tokens(verify_prompt(one, _NEEDS)) for one in asked))
        if style == "requirements":
            count("category", (_tokens(category_prompt(one, "a kind of thing")) for one in asked))
    return [_one(step, model, calls[step], read[step], prices) for step in calls for model in casting.of(step)]


def _one(step: Step, model: str, calls: int, read: int, prices: Mapping[str, Price]) -> Estimate:
    written = calls * REPLY[step]
    cost = cost_of(Usage(prompt=read, completion=written, calls=calls), price_of(model, prices))
    return Estimate(step, model, calls, read, written, cost)


def _tokens(prompt: str) -> int:
    return len(prompt.encode()) // BYTES_PER_TOKEN
