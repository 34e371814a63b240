"""Documents with their relations: built where asked for, kept through an update, and only what changed embedded."""

import json
import shutil

from kbnav.knowledge.skb.build import Options
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.maintenance import check, update
from kbnav.knowledge.skb.store import SKB
from tests.retrieval.expand.conftest import CountingEncoder, KeywordEncoder


def test_an_update_embeds_anew_the_documents_of_both_ends_of_a_new_edge(related_path, tmp_path):
    skb_path = tmp_path / "copy.skb"
    shutil.copytree(related_path, skb_path)
    (tmp_path / "e.jsonl").write_text(json.dumps({"source": "wren", "relation": "mended by", "target": "bob"}))
    encoder = CountingEncoder()
    options = Options(encoder=encoder, sparql=False, relations=True)
    update(skb_path, TableSource([], [tmp_path / "e.jsonl"]), options)
    assert check(skb_path) == []
    texts = [text for batch in encoder.asked for text in batch]
    assert len(texts) == 2
    assert all("mended_by" in text for text in texts)
    with SKB.open(skb_path, KeywordEncoder()) as skb:
        assert skb.relational_text is not None
        found = [skb.id(node) for node, _ in skb.relational_text.search("Wren", limit=9)]
        assert set(found) == {"wren", "ann", "bob"}
        assert found[0] == "wren"
