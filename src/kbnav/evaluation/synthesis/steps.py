"""What the pipeline asks its models at each step, and how their replies are read (STaRK, appendix C)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kbnav.evaluation.synthesis.crew import Malformed
from kbnav.evaluation.synthesis.phrases import is_literal
from kbnav.evaluation.synthesis.wording import Style
from kbnav.knowledge.skb.store import SKB
from kbnav.prompts import render

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
