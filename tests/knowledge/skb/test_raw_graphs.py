"""The raw files of PrimeKG, ogbn-mag and Amazon, written by hand in the published formats."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import build
from kbnav.knowledge.skb.importers.amazon import AmazonSource
from kbnav.knowledge.skb.importers.files import Format
from kbnav.knowledge.skb.importers.stark import AMAZON_RELATIONS, AMAZON_TYPES, MagSource, PrimeKGSource
from kbnav.knowledge.skb.importers.tables import Recipe
from kbnav.knowledge.skb.rendering import get_doc_info
from kbnav.knowledge.skb.store import SKB

from .saved import save_pickle, save_stark
from .sources import BARE, edges_of

HEADER = [
    "relation", "display_relation", "x_index", "x_id", "x_type", "x_name", "x_source",
    "y_index", "y_id", "y_type", "y_name", "y_source",
]  # fmt: skip
GENE = ["0", "9796", "gene/protein", "PHYHIP", "NCBI"]
DRUG = ["2", "DB09130", "drug", "Copper", "DrugBank"]
DISEASE = ["1", "5148_8019", "disease", 'Wilson, "copper" disease', "MONDO_grouped"]
PROCESS = ["3", "16", "biological_process", "copper ion transport", "GO"]
GRAPH = [
    ["drug_protein", "carrier", *GENE, *DRUG],
    ["drug_protein", "carrier", *DRUG, *GENE],
    ["indication", "indication", *DRUG, *DISEASE],
    ["indication", "indication", *DISEASE, *DRUG],
    ["bioprocess_protein", "interacts with", *GENE, *PROCESS],
]
DRUGS = [["node_index", "description", "half_life", "state"], ["2", 'A "metal",\nreddish.', "", "Copper is a solid."]]
DISEASES = [
    ["node_index", "mondo_id", "mondo_name", "mondo_definition"],
    ["1", "5148", "Wilson disease", "It stores copper."],
    ["1", "8019", "another of the group", "Not taken."],
    ["77", "1", "not in the graph", "Lost."],
]


@pytest.fixture
def primekg(tmp_path: Path) -> Path:
    folder = tmp_path / "primekg"
    folder.mkdir()
    for name, delimiter, rows in (
        ("kg.csv", ",", [HEADER, *GRAPH]),
        ("drug_features.tab", "\t", DRUGS),  # as Dataverse serves it
        ("disease_features.csv", ",", DISEASES),
    ):
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
    return folder


def numbered(skb: SKB) -> set[tuple[int, str, int]]:
    return {(int(source), relation, int(target)) for source, relation, target in edges_of(skb)}


def test_primekg_is_built_with_its_own_numbers_and_features(primekg, tmp_path):
    meta = build(PrimeKGSource(primekg), tmp_path / "p.skb", BARE)
    assert {reason: one.count for reason, one in meta.dropped.items()} == {
        "further lines of features for a node (the first is kept)": 1,
        "features of a node that the graph does not have": 1,
    }
    with SKB.open(tmp_path / "p.skb") as skb:
        assert numbered(skb) == {
            (0, "carrier", 2), (2, "carrier", 0), (2, "indication", 1), (1, "indication", 2), (0, "interacts with", 3),
        }  # fmt: skip
        assert get_doc_info(skb, skb.number("1"), add_rel=False) == (
            '- name: Wilson, "copper" disease\n- type: disease\n- source: MONDO_grouped\n- details:\n'
            "  - mondo_name: Wilson disease\n  - mondo_definition: It stores copper.\n"
        )
        assert get_doc_info(skb, skb.number("2")) == (
            "- name: Copper\n- type: drug\n- source: DrugBank\n- details:\n"
            '  - description: A "metal",\nreddish.\n  - state: Copper is a solid.\n'
            "- relations:\n  carrier: {gene/protein: (PHYHIP),}\n"
            '  indication: {disease: (Wilson, "copper" disease),}'
        )
        assert get_doc_info(skb, skb.number("0"), add_rel=False).endswith("- source: NCBI\n")


def test_the_metadata_that_stark_added_describes_genes_and_processes(primekg, tmp_path):
    extended: dict[str, Any] = {
        "gene/protein": {"PHYHIP": {"_id": "9796", "alias": ["PAHX-AP"], "summary": "Binds.", "empty": None}},
        "biological_process": {"16": {"definition": "Moves copper.", "none": [""]}},
        "pathway": {"R-1": {"name": ["a pathway"]}, "R-2": "no table"},
    }
    save_pickle(primekg / "primekg_metadata_extended.pkl", extended)
    meta = build(PrimeKGSource(primekg), tmp_path / "p.skb", BARE)
    assert meta.dropped["pathway without a name in the extended metadata"].count == 1
    with SKB.open(tmp_path / "p.skb") as skb:
        assert skb.nodes.aliases(skb.number("0")) == ("PAHX-AP",)
        assert get_doc_info(skb, skb.number("0"), add_rel=False).endswith(
            "- details:\n  - alias (other gene names): ['PAHX-AP']\n  - summary (protein summary text): Binds.\n"
        )
        assert get_doc_info(skb, skb.number("3"), add_rel=False).endswith(
            "- source: GO\n- details:\n  - definition: Moves copper.\n"
        )
    save_pickle(primekg / "primekg_metadata_extended.pkl", ["no table"])
    with pytest.raises(DataError, match="not tables by type"):
        build(PrimeKGSource(primekg), tmp_path / "q.skb", BARE)


# ogbn-mag: five papers, of which the third has no text, the fourth is in German, and the fifth has an abstract only

MAPPING = {"paper": [50, 51, 52, 53, 54], "author": [10, 11, 12], "institution": [20, 21], "field_of_study": [30, 31]}
RELATIONS = {
    "author___affiliated_with___institution": [(0, 1), (1, 0)],
    "paper___cites___paper": [(0, 1), (1, 0), (0, 3), (4, 0)],
    "paper___has_topic___field_of_study": [(0, 1), (3, 0), (1, 1)],
    "author___writes___paper": [(2, 0), (0, 1), (1, 3), (2, 4)],
}
TITLES = {50: "On the engines", 51: "A note on what is known", 53: "Über die Maschinen und was von ihnen bekannt ist"}
ABSTRACTS = {50: 'We show "much" of it.', 54: "This is what we found in the end.", 99: "A paper of another graph."}
TABLES = {
    "Authors": [["10", "1", "ada l", "Ada L", "20", "3", "4", "2016"], ["12", "1", "bo", "Bo M", "", "7", "", "2016"]],
    "Affiliations": [["21", "1", "uni", "Uni", "", "", "", "10", "20", "2016"]],
    "FieldsOfStudy": [["31", "1", "topology", "Topology", "", "2", "5", "6", "2016"]],
    "Papers": [
        ["50", "1", "", "Journal", "on the engines", "", "", "1843", "1843-09-01", "", "70", "", "", "", "", "", "",
         "2", "9", "9", "Memoirs of old", "2016"],
        ["51", "1", "", "Journal", "a note", "", "", "1844", "1844-01-02", "", "70", "", "", "", "", "", "", "2", "1",
         "1", "", "2016"],
    ],
    "Journals": [["70", "1", "memoirs", "Memoirs", "", "", "", "1", "1", "2016"]],
}  # fmt: skip


def packed(path: Path, rows: list[Any], delimiter: str = ",") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(delimiter.join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def mag(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    for kind, numbers in MAPPING.items():
        rows = [("ent idx", "ent name"), *enumerate(numbers)]
        packed(folder / "mag" / "mapping" / f"{kind}_entidx2name.csv.gz", rows)
    for relation, edges in RELATIONS.items():
        packed(folder / "mag" / "raw" / "relations" / relation / "edge.csv.gz", edges)
    for name, texts in (("idx_title", TITLES), ("idx_abs", ABSTRACTS)):
        (folder / f"{name}.tsv").write_text("".join(f"{number}\t{text}\n" for number, text in texts.items()))
    return folder


def test_papers_in_english_and_what_hangs_together_with_them_are_kept(mag, tmp_path):
    for table, rows in TABLES.items():
        packed(mag / f"{table}.txt.gz", rows, "\t")
    meta = build(MagSource(mag), tmp_path / "m.skb", BARE)
    counted = {reason: one.count for reason, one in meta.dropped.items()}
    assert counted == {"paper without a title or an abstract": 1, "paper in another language than en": 1,
                       "node without a name (kept, its id is shown)": 1}  # fmt: skip
    with SKB.open(tmp_path / "m.skb") as skb:
        # Authors 10 and 12, the institution of 10, field 31, papers 50, 51 and 54, in this order.
        assert [skb.documents[skb.number(str(number))]["mag_id"] for number in range(7)] == [10, 12, 21, 31, 50, 51, 54]
        assert numbered(skb) == {
            (0, "author___affiliated_with___institution", 2),
            (4, "paper___cites___paper", 5), (5, "paper___cites___paper", 4), (6, "paper___cites___paper", 4),
            (4, "paper___has_topic___field_of_study", 3), (5, "paper___has_topic___field_of_study", 3),
            (1, "author___writes___paper", 4), (0, "author___writes___paper", 5), (1, "author___writes___paper", 6),
        }  # fmt: skip
        assert get_doc_info(skb, skb.number("4")) == (
            " - paper title: On the engines\n"
            ' - abstract: We show "much" of it.\n'
            " - publication date: 1843-09-01\n"
            " - venue: Memoirs of old\n"
            "- relations:\n"
            '\npaper cites paper: ("A note on what is known", ""),'
            "\npaper has_topic field_of_study: (Topology),"
            "\nauthor writes paper: (Bo M),"
        )
        assert " - journal: Memoirs\n" in get_doc_info(skb, skb.number("5"))
        assert get_doc_info(skb, skb.number("0")) == (
            "- author name: Ada L\n- author paper count: 3\n- author citation count: 4\n"
        )
    # A build that was killed after the nodes asks another source for edges alone.
    assert sum(len(part.source) for part in MagSource(mag).edges(None)) == meta.edges  # type: ignore[arg-type]


def test_all_papers_with_a_text_from_starks_own_file_of_texts(mag, tmp_path):
    rows = [(50, "On the engines", 'with\ttabs and "quotes"'), (53, "Über die Maschinen", "")]
    with (mag / "idx_title_abs.tsv").open("w", newline="") as file:
        csv.writer(file, delimiter="\t").writerows([("mag_id", "title", "abstract"), *rows])
    meta = build(MagSource(mag, language="any"), tmp_path / "m.skb", BARE)
    assert {one.name: one.count for one in meta.types} == {
        "author": 2, "institution": 1, "field_of_study": 2, "paper": 2,
    }  # fmt: skip
    assert meta.dropped["tables of names that are not there"].count == 4
    with SKB.open(tmp_path / "m.skb") as skb:
        paper = skb.documents[skb.number("5")]
        assert (paper["mag_id"], paper["abstract"]) == (50, 'with\ttabs and "quotes"')
        assert "author writes paper" in get_doc_info(skb, skb.number("5"))


def test_what_is_not_primekg_is_said(primekg, tmp_path):
    with (primekg / "kg.csv").open("w", newline="") as file:
        csv.writer(file).writerows([HEADER[:-1], GRAPH[0][:-1]])
    with pytest.raises(DataError, match="not PrimeKG's table of edges: no column y_source"):
        build(PrimeKGSource(primekg), tmp_path / "p.skb", BARE)
    (primekg / "disease_features.csv").unlink()
    with pytest.raises(UsageError, match=r"there is no disease_features\.csv or disease_features\.tab"):
        PrimeKGSource(primekg)


def test_what_is_not_ogbn_mag_is_said(mag, tmp_path):
    with pytest.raises(UsageError, match="no raw/relations here"):
        MagSource(tmp_path)
    packed(mag / "mag" / "raw" / "relations" / "author___writes___paper" / "edge.csv.gz", [("author", "paper")])
    with pytest.raises(DataError, match=r"edge\.csv\.gz: could not convert"):
        build(MagSource(mag), tmp_path / "m.skb", BARE)
    (mag / "idx_abs.tsv").unlink()
    (mag / "idx_title.tsv").unlink()
    with pytest.raises(UsageError, match="there is no idx_title_abs"):
        MagSource(mag)


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


def gzipped(path: Path, lines: list[str], times: int = 1) -> None:
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
    gzipped(folder / "meta_Home_and_Kitchen.json.gz", list(map(json.dumps, meta)), times=2)  # as one is served
    gzipped(folder / "Home_and_Kitchen.json.gz", list(map(json.dumps, reviews)))
    gzipped(folder / "qa_Home_and_Kitchen.json.gz", list(map(repr, QUESTIONS)))
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
        assert {edge for edge in numbered(skb) if edge[0] < 3} == {
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
    lost = {"node of a type that was not asked for": 1, "edge to a node that was left out": 2} if saved else {}
    assert lost.items() <= {reason: one.count for reason, one in meta.dropped.items()}.items()
    with SKB.open(tmp_path / "a.skb") as skb:
        brand = skb.number("2" if saved else "23")
        assert (skb.name(brand), skb.graph.row(brand, "in").nodes.tolist()) == ("Acme", [skb.number("0")])


def test_edges_of_tables_to_nodes_of_other_types_are_told_as_that(tmp_path):
    (tmp_path / "n.csv").write_text("id,type,name\np1,part,Pump\np02,part,Valve\np2,maker,Acme\n")
    (tmp_path / "e.csv").write_text("source,relation,target\np1,fits,p02\np1,made_by,p2\np1,made_by,p9\n")
    recipe = Recipe(nodes=(tmp_path / "n.csv",), edges=(tmp_path / "e.csv",), types=("part",))
    meta = build(recipe.source(), tmp_path / "t.skb", BARE)
    assert {reason: one.examples for reason, one in meta.dropped.items()} == {
        "node of a type that was not asked for": ("p2 Acme",),
        "edge “made_by” to a node of a type that was not asked for": ("p1 made_by p2",),
        "edge “made_by” to a node that does not exist": ("p1 made_by p9",),
    }


def test_what_is_missing_or_damaged_is_said_with_file_and_line(raw, tmp_path):
    with pytest.raises(UsageError, match=r"no meta_NAME\.json\.gz here"):
        AmazonSource(tmp_path)
    gzipped(raw / "qa_Home_and_Kitchen.json.gz", ["{'asin': 'B1'}", "__import__('os').system('true')"])
    with pytest.raises(DataError, match=r"qa_Home_and_Kitchen\.json\.gz, line 2: malformed"):
        build(AmazonSource(raw), tmp_path / "a.skb", BARE)
    (raw / "qa_Home_and_Kitchen.json.gz").unlink()
    gzipped(raw / "Home_and_Kitchen.json.gz", ['{"asin": "B1"}', "{"])
    with pytest.raises(DataError, match=r"Home_and_Kitchen\.json\.gz, line 2, character 3: Expecting"):
        build(AmazonSource(raw), tmp_path / "a.skb", BARE)
    (raw / "Home_and_Kitchen.json.gz").unlink()
    with pytest.raises(UsageError, match=r"Home_and_Kitchen\.json\.gz: missing beside meta_Home"):
        AmazonSource(raw)
