"""The indexes of STaRK's knowledge bases hold STaRK's rendering and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbnav.errors import DataError
from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.stark import StarkSource
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.rendering import get_doc_info, indexed_text
from kbnav.knowledge.skb.schema import FORMAT, read_meta, write_meta
from kbnav.knowledge.skb.store import SKB
from kbnav.retrieval.documents import BM25, BM25Options
from kbnav.retrieval.expansion import Rerank, RerankOptions, structures
from tests.retrieval.expand.conftest import CountingEncoder, Listening, Script

from .saved import save_stark
from .sources import BARE
from .test_stark import (
    AMAZON_EDGES,
    AMAZON_NODES,
    AMAZON_RELATIONS,
    AMAZON_TYPES,
    MAG_EDGES,
    MAG_NODES,
    PRIME_EDGES,
    PRIME_NODES,
    PRIME_RELATIONS,
    PRIME_TYPES,
)

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
    import hashlib

    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def test_words_are_found_as_rendered_and_a_sources_numbers_are_not(built):
    skb, _ = built
    shown, hidden = FOUND_AND_NOT[skb.meta.style]
    for index in (skb.text, skb.relational_text):
        assert index is not None
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
