"""The scripts under examples/ turn real formats into records that build."""

import subprocess
import sys
from pathlib import Path

from kbnav.knowledge.skb.build import Options, build
from kbnav.knowledge.skb.importers.tables import TableSource
from kbnav.knowledge.skb.store import SKB

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOUN = """\
  1 This software and database is being provided to you, the LICENSEE, by
00000001 03 n 02 made_thing 0 artefact 0 002 @ 00000002 n 0000 + 00000003 v 0201 | made; "a fine one"; "an old one"
00000002 03 n 01 thing 0 001 ~ 00000001 n 0000 | whatever is: "that thing"; (`a "thing"' is a word)
"""
VERB = "00000003 29 v 01 make 0 001 + 00000001 n 0102 01 + 08 00 | bring about\n"
ADJECTIVE = """\
00000004 00 s 01 fine(p) 0 001 & 00000005 a 0000 | of good quality
00000005 00 a 02 good 0 sound 0 002 ! 00000006 a 0101 ! 00000006 a 0202 | not bad; "good"; "it is sound
00000006 00 a 02 bad 0 unsound 0 000 | not good
"""


def built(folder: Path) -> SKB:
    source = TableSource([folder / "nodes.jsonl.gz"], [folder / "edges.tsv.gz"])
    build(source, folder / "e.skb", Options(text=False, vectors=False, sparql=False))
    return SKB.open(folder / "e.skb")


def edges(skb: SKB) -> set[tuple[str, str, str]]:
    return {
        (skb.id(source), skb.relation_names[kind], skb.id(target))
        for source in range(len(skb.nodes))
        for target, kind in zip(*(column.tolist() for column in skb.graph.row(source)), strict=True)
    }


def wordnet(folder: Path) -> Path:
    for name, text in (("noun", NOUN), ("verb", VERB), ("adj", ADJECTIVE), ("adv", "")):
        (folder / f"data.{name}").write_text(text)
    script = [sys.executable, str(EXAMPLES / "wordnet.py"), str(folder), "--wordnet", str(folder)]
    subprocess.run(script, check=True)
    return folder


def test_synsets_are_nodes_and_pointers_are_edges_between_them(tmp_path):
    with built(wordnet(tmp_path)) as skb:
        made = skb.number("n00000001")
        assert (skb.nodes.names[made], skb.nodes.aliases(made)) == ("made thing", ("artefact",))
        assert skb.documents[made]["definition"] == "made"
        assert skb.documents[made]["examples"] == ["a fine one", "an old one"]
        assert (skb.name(skb.number("a00000004")), skb.type(skb.number("a00000004"))) == (
            "fine",
            "adjective",
        )
        assert edges(skb) == {
            ("n00000001", "hypernym", "n00000002"),
            ("n00000001", "derivationally related form", "v00000003"),
            ("v00000003", "derivationally related form", "n00000001"),
            ("a00000004", "similar to", "a00000005"),
            ("a00000005", "antonym", "a00000006"),
        }
        assert skb.meta.dropped == {}
