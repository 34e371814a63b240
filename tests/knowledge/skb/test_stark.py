"""STaRK's saved files: read as they are, refused where they are hostile, rendered as STaRK renders them."""

import hashlib
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kbnav.errors import DataError, UsageError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.stark import StarkSource, read_pickle, read_tensor, stark_node
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.maintenance import info
from kbnav.knowledge.skb.rendering import _prime_detail, get_doc_info, get_rel_info, indexed_text, paragraphs
from kbnav.knowledge.skb.schema import FORMAT, read_meta, write_meta
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.documents import BM25, BM25Options
from kbnav.retrieval.expansion import Rerank, RerankOptions, structures
from tests.retrieval.conftest import CountingEncoder, Listening, Script

from .saved import Hostile, plain, save_pickle, save_stark, save_tensor, tensor_pickle
from .sources import BARE, edges_of

# Pickles and tensors


@given(hnp.arrays(st.sampled_from([np.int64, np.float32, np.int32, np.uint8]), hnp.array_shapes(max_dims=3)))
@settings(max_examples=50)
def test_a_tensor_comes_back(array):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.pt"
        save_tensor(path, array)
        np.testing.assert_array_equal(read_tensor(path), array)


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=15,
)


@given(plain_values, st.integers(0, 5))
@settings(max_examples=100)
def test_plain_data_comes_back_from_every_pickle_protocol(value, protocol):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.pkl"
        path.write_bytes(pickle.dumps(value, protocol=protocol))
        assert read_pickle(path) == value


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_numpy_values_become_plain_ones(tmp_path, protocol):
    pairs = {
        "text": (np.str_("brand"), "brand"),
        "whole": (np.int64(-3), -3),
        "real": (np.float32(1.5), 1.5),
        "truth": (np.bool_(True), True),
        "list": (np.array([1, 2, 3]), [1, 2, 3]),
        "words": (np.array(["ab", "c"]), ["ab", "c"]),
        "mixed": (np.array(["a", {"k": 1}], dtype=object), ["a", {"k": 1}]),
        "ordered": (OrderedDict(a=1), {"a": 1}),
    }
    path = tmp_path / "p.pkl"
    path.write_bytes(pickle.dumps({name: given for name, (given, _) in pairs.items()}, protocol=protocol))
    assert read_pickle(path) == {name: plain for name, (_, plain) in pairs.items()}


@pytest.mark.parametrize(
    ("call", "argument", "named"),
    [
        (os.system, "touch {}", r"(posix|nt)\.system"),
        (eval, "open({!r}, 'w')", r"(builtins|__builtin__)\.eval"),
        (open, "{}", r"\w+\.open"),
        (np.load, "{}", r"numpy[\w.]*\.load"),
    ],
)
def test_a_hostile_pickle_is_refused_by_the_name_of_what_it_tried(tmp_path, call, argument, named):
    victim = tmp_path / "victim"
    path = tmp_path / "p.pkl"
    path.write_bytes(pickle.dumps({0: {"name": Hostile(call, argument.format(victim))}}))
    with pytest.raises(DataError, match=rf"p\.pkl: refused, because it asks for {named}, which is not data"):
        read_pickle(path)
    assert not victim.exists()


def test_a_hostile_tensor_is_refused(tmp_path):
    path = tmp_path / "t.pt"
    array = np.arange(6)
    save_tensor(path, array, tensor_pickle("LongStorage", 6, 0, [6], [1], function="os\nsystem"))
    with pytest.raises(DataError, match=r"asks for os\.system"):
        read_tensor(path)
    for storage, elements, offset, shape, stride in (
        ("LongStorage", 6, 0, [7], [1]),
        ("LongStorage", 6, 3, [4], [1]),
        ("LongStorage", 6, 0, [2, 3], [4, 1]),
        ("LongStorage", 6, -1, [2], [1]),
        ("LongStorage", 6, 0, [2], [-1]),
        ("LongStorage", 7, 0, [2], [1]),
        ("IntStorage", 6, 0, [6], [1]),
    ):
        save_tensor(path, array, tensor_pickle(storage, elements, offset, shape, stride))
        with pytest.raises(DataError, match=r"t\.pt"):
            read_tensor(path)
    save_tensor(path, array, b"\x80\x02" + plain({"a": 1}) + b".")
    with pytest.raises(DataError, match="holds dict, not one tensor"):
        read_tensor(path)
    path.write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")  # how PyTorch before 1.6 begins
    with pytest.raises(DataError, match=r"zip format of PyTorch 1\.6"):
        read_tensor(path)


# Prime

PRIME_TYPES = {0: "disease", 1: "gene/protein", 2: "drug"}
PRIME_RELATIONS = {0: "ppi", 1: "indication", 2: "off-label use", 3: "associated with"}
PRIME_NODES: list[dict[str, Any]] = [
    {
        "id": "9796",
        "type": "gene/protein",
        "name": "PHYHIP",
        "source": "NCBI",
        "details": {
            "_id": "9796",
            "_score": 17.9,
            "alias": ["DYRK1AP3", "PAHX-AP"],
            "entrez_id": 9796,
            "genomic_pos": [{"chr": "8", "start": 22219703}, {"chr": "9", "start": 1}],
            "name": "phytanoyl-CoA 2-hydroxylase interacting protein",
            "summary": "",
            "generif": [{"pubmed": 1, "text": "first finding"}, {"pubmed": 2, "text": "second finding"}],
            "interpro": {"desc": "Fibronectin type III", "id": "IPR003961"},
            "taxid": 9606,
        },
    },
    {
        "id": "DB1",
        "type": "drug",
        "name": "Copper",
        "source": "DrugBank",
        "details": {"state": "solid", "x": float("nan")},
    },
    {"id": "M1", "type": "disease", "name": "eczema", "source": "MONDO"},
    {"id": "M2", "type": "disease", "name": "acne", "source": "MONDO"},
    {"id": "9797", "type": "gene/protein", "name": "GPANK1", "source": "NCBI"},
]
PRIME_EDGES = [(1, 1, 2), (2, 1, 1), (1, 2, 2), (1, 2, 3), (0, 3, 3), (0, 0, 4), (4, 0, 0), (0, 3, 1)]


@pytest.fixture
def prime(tmp_path: Path) -> Any:
    folder = save_stark(
        tmp_path / "processed", PRIME_NODES, [1, 2, 0, 0, 1], PRIME_EDGES, (PRIME_TYPES, PRIME_RELATIONS)
    )
    build(StarkSource(folder), tmp_path / "prime.skb", BARE)
    with SKB.open(tmp_path / "prime.skb") as skb:
        yield skb


def test_prime_keeps_starks_numbers_as_ids_and_all_edges(prime):
    assert prime.meta.style == "stark-prime"
    assert prime.type_names == ("disease", "gene/protein", "drug")
    names = [prime.nodes.names[prime.number(str(n))] for n in range(5)]
    assert names == ["PHYHIP", "Copper", "eczema", "acne", "GPANK1"]
    assert edges_of(prime) == {(str(one), PRIME_RELATIONS[kind], str(other)) for one, kind, other in PRIME_EDGES}
    assert prime.nodes.aliases(prime.number("0")) == ("DYRK1AP3", "PAHX-AP")


def test_a_gene_of_prime_is_rendered_as_by_stark(prime):
    expected = (
        "- name: PHYHIP\n"
        "- type: gene/protein\n"
        "- source: NCBI\n"
        "- details:\n"
        "  - alias (other gene names): ['DYRK1AP3', 'PAHX-AP']\n"
        "  - genomic_pos (genomic position): {'chr': '8', 'start': 22219703}\n"
        "  - name (gene name): phytanoyl-CoA 2-hydroxylase interacting protein\n"
        "  - generif (PubMed text): first finding; second finding\n"
        "  - interpro (protein family and classification information): ['Fibronectin type III']\n"
        "  - taxid: 9606\n"
    )
    relations = "- relations:\n  ppi: {gene/protein: (GPANK1),}\n  associated_with: {disease: (acne),drug: (Copper),}"
    node = prime.number("0")
    assert get_doc_info(prime, node, add_rel=False) == expected
    assert get_doc_info(prime, node) == expected + relations
    assert get_doc_info(prime, node, add_rel=False, compact=True).endswith(" taxid: 9606. ")
    cited = dict(paragraphs(prime, node))
    assert cited["details.generif"] == "first finding; second finding"
    assert not {"type", "source", "name", "details.source"} & cited.keys()
    assert get_doc_info(prime, node, compact=True).startswith(
        "name: PHYHIP. type: gene/protein. source: NCBI. details: alias (other gene names): ['DYRK1AP3', 'PAHX-AP']. "
    )


# MAG, whose names are not in its files

MAG_NODES: list[dict[str, Any]] = [
    {"id": 3, "type": "author", "DisplayName": "Ada L", "PaperCount": 2, "CitationCount": -1, "mag_id": 33},
    {"id": 4, "type": "author", "DisplayName": -1, "PaperCount": -1, "CitationCount": 7, "mag_id": 34},
    {"id": 1, "type": "institution", "DisplayName": "Uni", "PaperCount": 10, "CitationCount": 20, "mag_id": 1},
    {"id": 2, "type": "field_of_study", "DisplayName": "Topology", "PaperCount": 5, "CitationCount": 6, "mag_id": 2},
    {
        "type": "paper",
        "title": "on  engines",
        "abstract": "We\r\nshow.\n\n",
        "Date": "1843-09-01",
        "OriginalVenue": -1,
        "JournalDisplayName": "Memoirs",
        "ConferenceSeriesDisplayName": -1,
        "ConferenceInstancesDisplayName": -1,
        "mag_id": 5,
    },
    {"type": "paper", "title": "other", "abstract": "Text.", "Date": -1, "OriginalVenue": "V", "mag_id": 6},
]
MAG_EDGES = [(0, 0, 2), (4, 1, 5), (4, 2, 3), (0, 3, 4), (1, 3, 4)]


def test_mag_is_rendered_as_by_stark(tmp_path):
    folder = save_stark(tmp_path / "processed", MAG_NODES, [0, 0, 1, 2, 3, 3], MAG_EDGES, None)
    build(StarkSource(folder), tmp_path / "mag.skb", BARE)
    with SKB.open(tmp_path / "mag.skb") as skb:
        assert skb.relation_names[1] == "paper___cites___paper"
        assert skb.nodes.names[skb.number("4")] == "on engines"
        assert get_doc_info(skb, skb.number("0")) == "- author name: Ada L\n- author paper count: 2\n"
        assert get_doc_info(skb, skb.number("1")) == "- author name: Unknown\n- author citation count: 7\n"
        assert get_doc_info(skb, skb.number("2")) == (
            " - institution: Uni\n- institution paper count: 10\n- institution citation count: 20\n"
        )
        assert get_doc_info(skb, skb.number("3")) == (
            " - field of study: Topology\n- field paper count: 5\n- field citation count: 6\n"
        )
        assert get_doc_info(skb, skb.number("4")) == (
            " - paper title: on  engines\n"
            " - abstract: We\nshow.\n"
            " - publication date: 1843-09-01\n"
            " - journal: Memoirs\n"
            "- relations:\n"
            '\npaper cites paper: ("other"),'
            "\npaper has_topic field_of_study: (Topology),"
            "\nauthor writes paper: (Ada L (Uni)),"
        )
        assert get_doc_info(skb, skb.number("5"), add_rel=False).endswith(" - abstract: Text.\n - venue: V\n")


# Amazon, whose files are in cache/<link types>/

AMAZON_TYPES = {0: "product", 1: "brand", 2: "category"}
AMAZON_RELATIONS = {0: "also_buy", 1: "also_view", 2: "has_brand", 3: "has_category"}
AMAZON_NODES: list[dict[str, Any]] = [
    {
        "asin": "B1",
        "title": "Kettle",
        "brand": "Acme",
        "details": {"product_dimensions": "1 x 2 x 3 inches ; 4 pounds"},
        "description": ["Boils water.", "Fast."],
        "feature": ["steel", "ASIN: B1", "1 litre"],
        "review": [
            {"summary": "fine", "reviewText": "Works.", "vote": float("nan")},
            {"summary": "great", "reviewText": "Best.", "vote": "1,002"},
        ],
        "qa": [{"question": "Loud?", "answer": "No."}],
    },
    {"asin": "B2", "title": "Cup", "description": [], "feature": [], "review": [], "qa": []},
    {"brand_name": np.str_("Acme")},
    {"category_name": "kitchen"},
]
AMAZON_EDGES = [(0, 0, 1), (0, 1, 1), (0, 2, 2), (0, 3, 3), (1, 3, 3)]


def test_amazon_is_rendered_as_by_stark_and_parallel_edges_are_kept(tmp_path):
    save_stark(
        tmp_path / "processed" / "cache" / "brand-category-color",
        AMAZON_NODES,
        [0, 0, 1, 2],
        AMAZON_EDGES,
        (AMAZON_TYPES, AMAZON_RELATIONS),
    )
    build(StarkSource(tmp_path / "processed"), tmp_path / "amazon.skb", BARE)
    with SKB.open(tmp_path / "amazon.skb") as skb:
        assert skb.graph.edges == 5
        # Undirected, with the two between Kettle and Cup as one: four pairs, each both ways.
        told = info(tmp_path / "amazon.skb").record()
        assert (told["edges"], told["published_relations"], told["published_degree"]) == (5, 8, 4.0)
        assert get_doc_info(skb, skb.number("2")) == "brand name: Acme"
        assert get_doc_info(skb, skb.number("0")) == (
            "- product: Kettle\n"
            "- brand: Acme\n"
            "- dimensions: 1 x 2 x 3 inches\n"
            "- weight: 4 pounds\n"
            "- description: Boils water. Fast.\n"
            "- features: \n"
            "#1: steel\n"
            "#3: 1 litre\n"
            "- reviews: \n"
            '#2:\nsummary: great\ntext: "Best."\n'
            '#1:\nsummary: fine\ntext: "Works."\n'
            "- Q&A: \n"
            '#1:\nquestion: "Loud?"\nanswer: "No."\n'
            "- relations:\n"
            "  products also purchased: \n#1: Cup\n"
            "  products also viewed: \n#1: Cup\n"
            "  brand: Acme\n"
        )
        # What appendix C.1 shows: no brand, no number, no field that is not rendered.
        assert dict(paragraphs(skb, skb.number("0"))) == {
            "dimensions": "1 x 2 x 3 inches",
            "weight": "4 pounds",
            "description": "Boils water. Fast.",
            "features-#1": "steel",
            "features-#3": "1 litre",
            "reviews-#2": 'summary: great text: "Best."',
            "reviews-#1": 'summary: fine text: "Works."',
            "Q&A-#1": 'question: "Loud?" answer: "No."',
        }
        assert get_doc_info(skb, skb.number("1")) == (
            "- product: Cup\n"
            "- relations:\n"
            "  products also purchased: \n#1: Kettle\n"
            "  products also viewed: \n#1: Kettle\n"
        )


def test_files_that_do_not_fit_together_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"no node_info\.pkl"):
        StarkSource(tmp_path)
    names = (PRIME_TYPES, PRIME_RELATIONS)
    for place, (types, edges, message) in enumerate(
        [
            ([1, 2, 0, 0], PRIME_EDGES, "not one record for each of the 4 node types"),
            ([1, 2, 0, 0, 9], PRIME_EDGES, "its type 9 is missing"),
            ([1, 2, 0, 0, 1], [*PRIME_EDGES, (0, 4, 1)], "edges name relation 0 to 4; there are 4"),
            ([1, 2, 0, 0, 1], [(0, 0, 5)], "edges name node 5 to 5; there are 5"),
        ]
    ):
        folder = save_stark(tmp_path / str(place), PRIME_NODES, types, edges, names)
        with pytest.raises(DataError, match=message):
            build(StarkSource(folder), tmp_path / f"{place}.skb", BARE)
    folder = save_stark(tmp_path / "e", PRIME_NODES, [1, 2, 0, 0, 1], PRIME_EDGES, names)
    save_pickle(folder / "edge_type_dict.pkl", {1: "ppi"})
    with pytest.raises(DataError, match="not a table of names, numbered from 0"):
        build(StarkSource(folder), tmp_path / "e.skb", BARE)
    (folder / "edge_types.pt").unlink()
    with pytest.raises(UsageError, match=r"edge_types\.pt missing"):
        StarkSource(folder)


def test_two_relations_to_one_neighbour_are_both_shown(prime):
    drug = prime.number("1")
    assert get_doc_info(prime, drug, add_rel=False) == (
        "- name: Copper\n- type: drug\n- source: DrugBank\n- details:\n  - state: solid\n"
    )
    assert get_rel_info(prime, drug) == (
        "- relations:"
        "\n  indication: {disease: (eczema),}"
        "\n  off-label_use: {disease: (eczema, acne),}"
        "\n  associated_with: {gene/protein: (PHYHIP),}"
    )


TEXTS = st.sampled_from(["", "nan", "a text", "two"])


@given(st.lists(TEXTS, min_size=1), st.lists(TEXTS, min_size=1))
@settings(max_examples=60)
def test_blank_texts_inside_lists_are_rendered_as_by_stark(generif, interpro):
    details = {"generif": [{"text": one} for one in generif], "interpro": [{"desc": one} for one in interpro]}
    kept = dict(stark_node(0, "gene/protein", {"name": "G", "details": details}, "stark-prime").fields)["details"]
    assert kept == details
    assert _prime_detail("gene/protein", "generif", kept["generif"]).endswith(f"): {'; '.join(generif)}\n")
    assert _prime_detail("gene/protein", "interpro", kept["interpro"]).endswith(f"): {interpro}\n")


REVIEWS = [{"summary": f"opinion{n}", "reviewText": "Fine.", "vote": str(100 - n)} for n in range(30)]
LONG = {"generif": [{"pubmed": 31415, "text": "word " * 50_000 + "unreadably"}], "_score": 2.71828}
STYLES: dict[str, tuple[Any, ...]] = {
    "stark-amazon": (
        [{**AMAZON_NODES[0], "review": REVIEWS}, *AMAZON_NODES[1:]],
        [0, 0, 1, 2],
        AMAZON_EDGES,
        (AMAZON_TYPES, AMAZON_RELATIONS),
    ),
    "stark-mag": (MAG_NODES, [0, 0, 1, 2, 3, 3], MAG_EDGES, None),
    "stark-prime": (
        [*PRIME_NODES[:4], {**PRIME_NODES[4], "details": LONG}],
        [1, 2, 0, 0, 1],
        PRIME_EDGES,
        (PRIME_TYPES, PRIME_RELATIONS),
    ),
}
FOUND_AND_NOT = {
    "stark-amazon": ("opinion26", ["opinion27", "B1", "asin"]),
    "stark-mag": ("Memoirs", ["33", "mag_id", "-1"]),
    "stark-prime": ("finding", ["9796", "17", "31415", "IPR003961", "unreadably", "71828"]),
}


@pytest.fixture(params=STYLES)
def built(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SKB, CountingEncoder]]:
    encoder = CountingEncoder()
    folder = save_stark(tmp_path / "processed", *STYLES[request.param])
    build(StarkSource(folder), tmp_path / "s.skb", Options(encoder=encoder, sparql=False, relations=True))
    with SKB.open(tmp_path / "s.skb", encoder) as skb:
        assert skb.meta.style == request.param
        yield skb, encoder


def test_what_is_encoded_is_starks_rendering_to_the_letter(built):
    skb, encoder = built
    alone, related = [
        [get_doc_info(skb, node, add_rel=relations) for node in range(len(skb.nodes))] for relations in (False, True)
    ]
    assert alone != related
    assert encoder.asked == [sorted(alone, key=_hash), sorted(related, key=_hash)]  # one batch each, by hash
    assert [indexed_text(skb, node) for node in range(len(skb.nodes))] == alone


STRUCTURES = {
    "stark-amazon": {
        "product": ("title", "brand", "dimensions", "weight", "description", "features", "reviews", "Q&A"),
        "brand": ("brand name",),
    },
    "stark-mag": {
        "author": ("author name", "author paper count", "author citation count"),
        "paper": ("paper title", "abstract", "publication date", "journal", "venue"),
    },
    "stark-prime": {"drug": ("name", "type", "source", "state")},
}
"""What KAR's Table 9 lists, in the words of the rendering; the parts of Prime's details one by one."""


def test_models_are_told_the_fields_that_are_rendered(built):
    skb, _ = built
    expected = STRUCTURES[skb.meta.style]
    assert {kind: fields for kind, fields in structures(skb).items() if kind in expected} == expected


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def test_words_are_found_as_rendered_and_a_sources_numbers_are_not(built):
    skb, _ = built
    shown, hidden = FOUND_AND_NOT[skb.meta.style]
    for index in (skb.text, skb.relational_text):
        assert index.search(shown)
        assert {word: index.search(word, name_weight=0.0) for word in hidden if index.words(word)} == {
            word: [] for word in hidden
        }
        # A name stands once in the document, as STaRK renders it.
        name = str(skb.nodes.names[0])
        assert index.holders(name.split()[0]) >= 1


def test_a_folder_of_an_earlier_format_is_refused(tmp_path):
    path = tmp_path / "old.skb"
    build(StarkSource(save_stark(tmp_path / "processed", *STYLES["stark-prime"])), path, BARE)
    assert (read_meta(path).format, read_meta(path).indexed) == (FORMAT, "stark-prime")
    write_meta(path, read_meta(path).model_copy(update={"format": FORMAT - 1}))
    with pytest.raises(DataError, match="an earlier version of kbnav built it"):
        SKB.open(path)


def test_bm25_leaves_relations_out_and_a_reranker_sees_them_in_starks_lines(built):
    skb, kb = built[0], SkbKB(built[0])
    word, kind, alone = {
        "stark-amazon": ("Cup", "product", {"1"}),
        "stark-mag": ("Topology", "paper", set()),
        "stark-prime": ("GPANK1", "gene/protein", {"4"}),
    }[skb.meta.style]
    assert set(BM25(kb, BM25Options(candidates=(kind,))).retrieve(word, 9).ids) == alone
    related = BM25(kb, BM25Options(candidates=(kind,), relations=True)).retrieve(word, 9)
    assert set(related.ids) > alone
    script = Script("1")
    Rerank(skb, Listening(related.ids[0]), script.calls, RerankOptions()).retrieve("?", 1)
    lines = get_doc_info(skb, skb.number(related.ids[0])).splitlines()
    assert {line.strip() for line in lines} <= {line.strip() for line in script.prompts[0].splitlines()}
