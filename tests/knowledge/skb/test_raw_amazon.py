"""Amazon's raw files, written by hand in the published formats."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import build
from kbnav.knowledge.skb.importers.amazon import AmazonSource
from kbnav.knowledge.skb.importers.files import Format
from kbnav.knowledge.skb.importers.recipe import Recipe
from kbnav.knowledge.skb.importers.stark import AMAZON_RELATIONS, AMAZON_TYPES
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.schema import Losses
from kbnav.knowledge.skb.store import SKB

from .saved import save_stark
from .sources import BARE

META: list[dict[str, Any]] = [
    {
        "asin": "B1", "title": "Kettle &amp; <b>Cup</b>", "brand": "by Acme.com\n", "category": ["Home", "Kettles"],
        "description": ["Boils  water.", "<script>x()</script>Fast."], "feature": ["steel", "ASIN: B1"],
        "details": {"\n    Product Dimensions: \n    ": "1 x 2 x 3 inches ; 4 pounds"}, "rank": "1 in Home",
        "also_buy": ["B3", "B9", "B2"], "also_view": ["B2"], "price": "$5", "image": [], "tech1": "",
    },
    {"asin": "B2", "title": "Tray", "brand": "Zed", "category": ["Home"], "also_buy": ["B3"], "description": []},
    {"asin": "B3", "title": "Never reviewed", "brand": "Nobody", "category": ["Home"], "also_view": ["B1"]},
    {"asin": "B1", "title": "A second time"},
    {"asin": "B4", "title": "Mug", "category": [], "also_view": ["B1"]},
]  # fmt: skip
REVIEWS: list[dict[str, Any]] = [
    {"asin": "B1", "summary": "fine", "reviewText": "Works.", "style": {"Color:": " Deep Red"}, "reviewerName": "Ann"},
    {"asin": "B4", "summary": "ok", "reviewText": "Holds tea.", "style": {"Color Name:": "deep red", "Size:": "Large"}},
    {"asin": "B2", "summary": "meh", "reviewText": "Flat.", "style": {"Color:": "42"}, "vote": "3"},
    {"asin": "B1", "summary": "great", "reviewText": "Best.", "vote": "1,002"},
    {"asin": "B0", "summary": "lost", "reviewText": "No such product."},
]
QUESTIONS = [
    {"questionType": "yes/no", "asin": "B1", "question": "Isn't it loud?", "answerType": "N", "answer": 'No, "quiet".'},
    {"asin": "B3", "question": "Anybody?", "answer": "Nobody."},
]


def packed(path: Path, lines: list[str], times: int = 1) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    for _ in range(times):
        content = gzip.compress(content)
    path.write_bytes(content)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    # Twenty more products, so that more than twenty have deep red.
    more = [f"C{number}" for number in range(20)]
    meta = [*META, *({"asin": asin, "title": f"Thing {asin}"} for asin in more)]
    reviews = [*REVIEWS, *({"asin": asin, "reviewText": "x", "style": {"Color:": "Deep Red"}} for asin in more)]
    packed(folder / "meta_Home_and_Kitchen.json.gz", list(map(json.dumps, meta)), times=2)  # as one is served
    packed(folder / "Home_and_Kitchen.json.gz", list(map(json.dumps, reviews)))
    packed(folder / "qa_Home_and_Kitchen.json.gz", list(map(repr, QUESTIONS)))
    return folder


def test_products_with_reviews_and_their_brands_categories_and_colours_become_nodes(raw, tmp_path):
    meta = build(AmazonSource(raw), tmp_path / "a.skb", BARE)
    assert {one.name: one.count for one in meta.types} == {"product": 23, "brand": 2, "category": 2, "color": 1}
    assert {reason: one.count for reason, one in meta.dropped.items()} == {
        "product without a review": 1, "product described twice (the first is kept)": 1,
        "review of a product without metadata": 1, "question about a product that is left out": 1,
    }  # fmt: skip
    with SKB.open(tmp_path / "a.skb") as skb:
        names = [skb.nodes.names[skb.number(str(number))] for number in (0, 1, 2, 23, 24, 25, 26, 27)]
        assert names == ["Kettle & Cup", "Tray", "Mug", "Acme", "Zed", "home", "kettles", "deep red"]
        found = {
            (int(skb.id(source)), skb.relation_names[kind], int(skb.id(target)))
            for source in map(skb.number, "012")
            for target, kind in zip(*(part.tolist() for part in skb.graph.row(source)), strict=True)
        }
        assert found == {
            (0, "also_buy", 1), (0, "also_view", 1), (2, "also_view", 0), (0, "has_brand", 23), (1, "has_brand", 24),
            (0, "has_category", 25), (0, "has_category", 26), (1, "has_category", 25),
            (0, "has_color", 27), (2, "has_color", 27),
        }  # fmt: skip
        assert get_doc_info(skb, skb.number("0"), add_rel=False) == (
            "- product: Kettle & Cup\n"
            "- brand: Acme\n"
            "- dimensions: 1 x 2 x 3 inches\n"
            "- weight: 4 pounds\n"
            "- description: Boils water. Fast.\n"
            "- features: \n"
            "#1: steel\n"
            "- reviews: \n"
            '#2:\nsummary: great\ntext: "Best."\n'
            '#1:\nsummary: fine\ntext: "Works."\n'
            "- Q&A: \n"
            '#1:\nquestion: "Isn\'t it loud?"\nanswer: "No, "quiet"."\n'
        )


def test_a_list_of_categories_says_which_become_nodes_and_a_build_goes_on_with_the_edges(raw, tmp_path):
    (raw / "category_list.json").write_text(json.dumps(["kettles"]))
    source = AmazonSource(raw)
    whole = build(source, tmp_path / "a.skb", BARE)
    assert {one.name: one.count for one in whole.types}["category"] == 1
    # A build that was killed after the nodes asks another source for edges alone.
    kept = [[array.tolist() for array in part] for part in AmazonSource(raw).edges(None)]  # type: ignore[arg-type]
    assert sum(len(part[0]) for part in kept) == whole.edges


@pytest.mark.parametrize("saved", [False, True])
def test_products_and_brands_with_three_relations_are_a_knowledge_base_of_their_own(saved, raw, tmp_path):
    folder, form = raw, Format.amazon
    nodes = [{"title": "Kettle"}, {"title": "Mug"}, {"brand_name": "Acme"}, {"category_name": "home"}]
    edges = [(0, 0, 1), (1, 1, 0), (0, 2, 2), (0, 3, 3), (1, 3, 3)]
    if saved:
        folder, form = tmp_path / "saved", Format.stark
        save_stark(
            folder, nodes, [0, 0, 1, 2], edges, (dict(enumerate(AMAZON_TYPES)), dict(enumerate(AMAZON_RELATIONS)))
        )
    recipe = Recipe(format=form, sources=(folder,), types=("product", "brand"))
    meta = build(recipe.source(), tmp_path / "a.skb", BARE)
    products, brands = (2, 1) if saved else (23, 2)
    assert {one.name: one.count for one in meta.types} == {"product": products, "brand": brands}
    counts = {"also_buy": 1, "also_view": 1, "has_brand": 1} if saved else {
        "also_buy": 1, "also_view": 2, "has_brand": 2,
    }  # fmt: skip
    assert {one.name: one.count for one in meta.relations} == counts
    lost = {"node of a type that was not asked for": 1, "edge of a type that was not asked for": 2} if saved else {}
    assert lost.items() <= {reason: one.count for reason, one in meta.dropped.items()}.items()
    with SKB.open(tmp_path / "a.skb") as skb:
        brand = skb.number("2" if saved else "23")
        assert (skb.name(brand), skb.graph.row(brand, "in").nodes.tolist()) == ("Acme", [skb.number("0")])
    again = [[part.tolist() for part in one] for one in recipe.source().edges(Losses())]  # as after a kill
    assert sum(len(source) for source, _, _ in again) == meta.edges


def test_what_is_missing_or_damaged_is_said_with_file_and_line(raw, tmp_path):
    with pytest.raises(UsageError, match=r"no meta_NAME\.json\.gz here"):
        AmazonSource(tmp_path)
    packed(raw / "qa_Home_and_Kitchen.json.gz", ["{'asin': 'B1'}", "__import__('os').system('true')"])
    with pytest.raises(DataError, match=r"qa_Home_and_Kitchen\.json\.gz, line 2: malformed"):
        build(AmazonSource(raw), tmp_path / "a.skb", BARE)
    (raw / "qa_Home_and_Kitchen.json.gz").unlink()
    packed(raw / "Home_and_Kitchen.json.gz", ['{"asin": "B1"}', "{"])
    with pytest.raises(DataError, match=r"Home_and_Kitchen\.json\.gz, line 2, character 3: Expecting"):
        build(AmazonSource(raw), tmp_path / "a.skb", BARE)
    (raw / "Home_and_Kitchen.json.gz").unlink()
    with pytest.raises(UsageError, match=r"Home_and_Kitchen\.json\.gz: missing beside meta_Home"):
        AmazonSource(raw)
