"""Amazon's products from the files that STaRK's SKB was made of: reviews, metadata, questions and answers.

For a category of goods, Ni, Li and McAuley (2019) publish ``NAME.json.gz`` (reviews) and ``meta_NAME.json.gz``, a JSON
object a line; McAuley and Yang (2016) ``qa_NAME.json.gz``, a Python literal a line. As in STaRK (section 2.2 and the
published code), the products are those with metadata and at least one review, in the order of the metadata; brands,
categories and colours become nodes behind them, each kind sorted by name. So the ids are STaRK's numbers, where the
files, their order and the list of categories are STaRK's.

Reviews are grouped by product on disk, so that memory grows with the products and not with the reviews.
"""

from __future__ import annotations

import ast
import html
import json
import re
import string
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.files import as_json, parse_json
from kbnav.knowledge.skb.importers.files import Grouped, files_fingerprint, objects
from kbnav.knowledge.skb.importers.stark import AMAZON_RELATIONS, AMAZON_TYPES, stark_node
from kbnav.knowledge.skb.schema import MEMORY, EdgeArrays, Losses, NodeRecord, Style

CATEGORIES = "category_list.json"
"""STaRK's list of the categories that become nodes; without it all do."""
META = ("asin", "title", "price", "feature", "rank", "details", "description")
REVIEW = ("reviewerID", "summary", "style", "reviewText", "vote", "overall", "verified", "reviewTime")
QUESTION = ("questionType", "answerType", "question", "answer", "answerTime")
LINKS = ("also_buy", "also_view")
COLOUR_PRODUCTS = 20
"""A colour that no more products have becomes no node."""
BRAND_LENGTH = 100
"""Characters; of a longer brand, which is a sentence, only the first word is kept."""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class _Goods:
    name: str
    meta: Path
    reviews: Path
    questions: Path | None

    @classmethod
    def of(cls, meta: Path) -> _Goods:
        name = meta.name.removeprefix("meta_").removesuffix(".json.gz")
        reviews = [meta.with_name(f"{name}{more}.json.gz") for more in ("", "_5")]
        found = next((path for path in reviews if path.is_file()), None)
        if found is None:
            raise UsageError(f"{reviews[0]}: missing beside {meta.name}")
        questions = meta.with_name(f"qa_{name}.json.gz")
        return cls(name, meta, found, questions if questions.is_file() else None)


@dataclass(frozen=True)
class _Products:
    """What is known of the products before the first of them is a node."""

    numbers: Mapping[str, int]
    """By asin, the place in the metadata."""
    positions: np.ndarray[Any, np.dtype[np.int64]]
    """By that place, the number of the node; -1 where there is no review."""
    colours: Mapping[int, Sequence[str]]
    """By that place, sorted."""

    def node(self, asin: object) -> int:
        """The number of a product's node, or -1."""
        place = self.numbers.get(asin, -1) if isinstance(asin, str) else -1
        return int(self.positions[place]) if place >= 0 else -1


class _Linked:
    """The edges of the products, gathered while these are read."""

    def __init__(self) -> None:
        self.known: list[dict[str, int]] = [{}, {}, {}]
        """Brands, categories and colours as they came."""
        self._ends = [(array("q"), array("q")) for _ in AMAZON_RELATIONS]

    def add(self, number: int, record: Line, fields: Line, products: _Products) -> None:
        """Take a product's."""
        for link, (sources, targets) in zip(LINKS, self._ends, strict=False):
            listed = record.get(link)
            found = [products.node(asin) for asin in (listed if isinstance(listed, list) else [])]
            targets.extend(node for node in found if node >= 0)
            sources.extend([number] * (len(targets) - len(sources)))
        linked = [fields["brand"]] if "brand" in fields else [], fields.get("category", ()), fields.get("color", ())
        for known, links, (sources, targets) in zip(self.known, linked, self._ends[len(LINKS) :], strict=True):
            targets.extend(known.setdefault(name, len(known)) for name in links)
            sources.extend([number] * len(links))

    def edges(self, first: int) -> Iterator[EdgeArrays]:
        """By relation; ``first`` is the number of the first brand's node."""
        for relation, (sources, targets) in enumerate(self._ends):
            into = np.array(targets, np.int64)
            if relation >= len(LINKS):
                names = list(self.known[relation - len(LINKS)])
                ranks = np.argsort(sorted(range(len(names)), key=names.__getitem__))
                into = first + ranks[into]
                first += len(names)
            yield EdgeArrays(np.array(sources, np.int64), np.full(len(into), relation), into)


class AmazonSource:
    """The raw files of one or several categories of goods, from the folder that they are in."""

    style: Style = "stark-amazon"
    types: Sequence[str] = AMAZON_TYPES
    relations: Sequence[str] = AMAZON_RELATIONS
    alias_fields: Sequence[str] = ()

    def __init__(self, folder: Path, memory: int = MEMORY) -> None:
        """``memory``: bytes that one line may take. Raises UsageError without ``meta_NAME.json.gz`` or its reviews."""
        metas = sorted(folder.glob("meta_*.json.gz"))
        if not metas:
            raise UsageError(f"{folder}: there is no meta_NAME.json.gz here; docs/skb-format.md says what to download")
        self._goods = [_Goods.of(meta) for meta in metas]
        self._memory = memory
        self._list = [path for path in [folder / CATEGORIES] if path.is_file()]
        try:
            listed = [json.loads(path.read_text(encoding="utf-8")) for path in self._list]
            if not all(isinstance(one, list) for one in listed):
                raise ValueError("it holds something else")
            self._categories = frozenset(map(str, listed[0])) if listed else None
        except ValueError as error:
            raise DataError(f"{folder / CATEGORIES}: not a list of categories: {error}") from error
        self._edges: Sequence[EdgeArrays] = ()
        names = ", ".join(goods.name for goods in self._goods)
        self.description = f"Amazon's reviews, metadata, questions and answers: {names}"
        found = [path for goods in self._goods for path in (goods.meta, goods.reviews, goods.questions) if path]
        self.fingerprint = files_fingerprint([*found, *self._list])

    def nodes(self, losses: Losses) -> Iterator[NodeRecord]:
        """Products, then brands, categories and colours. Raises DataError."""
        numbers = {str(record["asin"]): place for place, (record, _) in enumerate(self._described(losses))}
        linked = _Linked()
        with Grouped(len(numbers) or 1) as reviews, Grouped(len(numbers) or 1) as questions:
            products = self._read_reviews(numbers, reviews, losses)
            self._read_questions(products, questions, losses)
            of_product = zip(reviews, questions, strict=True)
            for place, (record, goods) in enumerate(self._described(Losses())):
                said, asked = next(of_product)
                number = int(products.positions[place])
                if number < 0:
                    losses.add("product without a review", str(record["asin"]))
                    continue
                fields = self._fields(record, goods, products.colours.get(place, ()))
                linked.add(number, record, fields, products)
                node = stark_node(number, AMAZON_TYPES[0], fields, self.style)
                said_of = {"review": [*map(parse_json, said)], "qa": [*map(parse_json, asked)]}
                yield node._replace(fields={**node.fields, **said_of})
        number = int(products.positions.max(initial=-1)) + 1
        self._edges = list(linked.edges(number))
        for kind, known in zip(AMAZON_TYPES[1:], linked.known, strict=True):
            for name in sorted(known):
                yield stark_node(number, kind, {f"{kind}_name": name}, self.style)
                number += 1

    def edges(self, losses: Losses) -> Iterator[EdgeArrays]:  # noqa: ARG002  # what is lost was counted with the nodes
        """What was bought and viewed with a product, then its brand, categories and colours. Raises DataError."""
        if not self._edges:  # a build goes on behind the nodes
            deque(self.nodes(Losses()), 0)
        yield from self._edges

    def _described(self, losses: Losses) -> Iterator[tuple[Line, _Goods]]:
        """The products in the order of the metadata, each as it is described first."""
        known: set[str] = set()
        for goods in self._goods:
            for record in self._lines(goods.meta):
                asin = record.get("asin")
                if not isinstance(asin, str) or not asin:
                    losses.add("product without an asin", goods.meta.name)
                elif asin in known:
                    losses.add("product described twice (the first is kept)", asin)
                else:
                    known.add(asin)
                    yield record, goods

    def _read_reviews(self, numbers: Mapping[str, int], into: Grouped, losses: Losses) -> _Products:
        """Which products have reviews, and their colours; the reviews are put ``into`` it."""
        reviewed = np.zeros(len(numbers), bool)
        colours: dict[int, set[str]] = {}
        known: dict[str, str] = {}
        for goods in self._goods:
            for review in self._lines(goods.reviews):
                place = numbers.get(review.get("asin") or "", -1)
                if place < 0:
                    losses.add("review of a product without metadata", str(review.get("asin")))
                    continue
                reviewed[place] = True
                for colour in _colours(review):
                    colours.setdefault(place, set()).add(known.setdefault(colour, colour))
                into.add(place, _picked(review, REVIEW))
        counts = Counter(colour for found in colours.values() for colour in found)
        # STaRK's rule: a colour is often given, has up to four words, and is no number.
        often = (colour for colour, count in counts.items() if count > COLOUR_PRODUCTS)
        wanted = {one for one in often if len(one) > 2 and len(one.split(" ")) < 5 and not one.isnumeric()}
        kept = {place: found for place, all_ in colours.items() if (found := tuple(sorted(all_ & wanted)))}
        positions = np.where(reviewed, np.cumsum(reviewed) - 1, -1)
        return _Products(numbers, positions, kept)

    def _read_questions(self, products: _Products, into: Grouped, losses: Losses) -> None:
        for goods in self._goods:
            if goods.questions is None:
                losses.add("goods without a file of questions and answers", goods.name)
                continue
            for line in self._lines(goods.questions, ast.literal_eval):
                if products.node(line.get("asin")) < 0:
                    losses.add("question about a product that is left out", str(line.get("asin")))
                else:
                    into.add(products.numbers[line["asin"]], _picked(line, QUESTION))

    def _fields(self, record: Line, goods: _Goods, colours: Sequence[str]) -> dict[str, Any]:
        fields = {key: _cleaned(record[key]) for key in META if record.get(key) is not None}
        fields["global_category"] = goods.name.replace("_", " ")
        brand = _brand(_cleaned(record.get("brand") or ""))
        named = record.get("category")
        lowered = [str(one).lower() for one in named] if isinstance(named, list) else []
        kept = [one for one in lowered if self._categories is None or one in self._categories]
        linked = {"brand": brand, "category": kept, "color": colours}
        return fields | {key: value for key, value in linked.items() if value}

    def _lines(self, path: Path, parse: Callable[[str], Any] = parse_json) -> Iterator[dict[str, Any]]:
        return (record for _, record in objects(path, self._memory, parse))


def _picked(record: Line, keys: Sequence[str]) -> bytes:
    return as_json({key: record[key] for key in keys if key in record})


def _colours(review: Line) -> Iterator[str]:
    style = review.get("style")
    for key, value in style.items() if isinstance(style, dict) else ():
        first = value[0] if isinstance(value, list) and value else value
        if "color" in key.lower() and isinstance(first, str):
            yield first.strip().lower()


def _brand(name: str) -> str:
    name = name.strip(string.whitespace + "\".*+,-_!@#$%^&();/|<>'\\")
    name = name.removeprefix("by ").removesuffix(".com").removeprefix("www.")
    return name.split(" ")[0] if len(name) > BRAND_LENGTH else name


_NO_TEXT = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|</?[a-zA-Z][^<>]*>", re.DOTALL | re.IGNORECASE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        if "<" in value:
            value = _NO_TEXT.sub("", value)
        return " ".join(html.unescape(value).split() if "&" in value else value.split())
    if isinstance(value, list):
        return [_cleaned(one) for one in value]
    if isinstance(value, dict):
        tidy = (str(_cleaned(name)).lower().translate(_PUNCTUATION).replace(" ", "_") for name in value)
        return dict(zip(tidy, map(_cleaned, value.values()), strict=True))
    return value
