"""The BM25 index of an SKB: names, aliases and documents, in a tantivy index inside the SKB's folder.

Two fields are searched. ``name`` holds the name and the aliases, ``body`` holds them again with the document, so that a
word of the question may match either, and a match in ``name`` counts twice. On WordNet, asked with 2,000 of its example
sentences, this finds more than ``body`` alone (recall@20 0.61 against 0.43), than weights of 1 or 4, and than the
better of the two fields in place of their sum.

Words are stemmed, and freed of case, accents, tones and vowel points ("Αθήνας" and "ΑΘΗΝΑΣ", "за́мок" and "замок" are
one). Scripts that put no space between words are cut into pieces that overlap: Chinese, Japanese and Korean into two
characters, Thai, Lao, Burmese and Khmer into three.
"""

from __future__ import annotations

import heapq
import math
import os
import re
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from kbnav.answers.language import SCRIPTS
from kbnav.errors import DataError
from kbnav.knowledge.skb.files import link, reading
from kbnav.knowledge.skb.schema import Hit, NodeText, Progress, Range, no_progress

if TYPE_CHECKING:
    import tantivy

NAME_WEIGHT = 2.0
"""What a match in a name counts, one in the body counting 1."""
_LONGEST_WORD = 255  # bytes
_MOST_WORDS, _FIRST_WORDS = 256, 64  # of a query; of a longer one the first are kept and the most frequent others
_HEAP = 256_000_000  # bytes of memory a build uses before it writes a segment
_TERM_SET = 2_000  # up to so many nodes are looked up one by one; more are filtered out of a longer ranking
_MOST_EQUALS = 5_000  # hits of one score that are put in order of their numbers
_REPORT_EVERY = 5_000

_PIECES = ((f"{SCRIPTS['han']}{SCRIPTS['ja']}{SCRIPTS['ko']}", 2), ("\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff", 3))
"""Characters written without spaces, or with endings glued on, and how many make a piece."""
_FOREIGN = re.compile("[^\\x00-\\x7f]+")
_ACCENTED = range(0x80, 0x3000)
"""Where letters with accents and marks of their own are, of Unicode's scripts but the ideographic ones."""
_POINTS, _TONES, _ABOVE_AND_BELOW = range(10, 36), (107, 122), 200
"""Combining classes: of Hebrew's and Arabic's vowels, of Thai's and Lao's tones, and from where on of accents."""
_SIGNS = frozenset("\u0e47\u0e4c\u0e4e\u0ecc\u1037\u1039\u103a\u17dd") | {chr(code) for code in range(0x17C9, 0x17D4)}
"""Further marks of scripts without spaces at which the tokenizer would break a piece."""
_LETTERS = "йў"
"""Letters of their own, though Unicode takes them apart; Russian endings are known by the first."""


class TextIndex:
    """BM25 over names and documents; safe to share between threads. Use ``open`` of this module."""

    def __init__(self, index: tantivy.Index, type_start: Sequence[int]) -> None:
        self.nodes = type_start[-1]
        """Number of nodes."""
        self._analyzer = analyzer()
        self._schema = index.schema
        self._searcher = index.searcher()
        self._depth = max(self.nodes, 1)  # tantivy refuses a limit of 0
        self._types = {bounds: number for number, bounds in enumerate(pairwise(type_start))}

    @reading("the text index")
    def words(self, text: str) -> list[str]:
        """The words of a text in the form they are indexed in."""
        return list(self._analyzer.analyze(spelled(text)))

    def holders(self, word: str) -> int:
        """How many nodes have a word, in any of its forms; of several words, the rarest counts."""
        return min(self._held(self.words(word)).values(), default=0)

    def shares(self, query: str, texts: Iterable[str]) -> list[float]:
        """How much of a query each text has, from 0 to 1: its words in any of their forms, rare ones counting more."""
        weights = {word: self.rarity(held) for word, held in self._held(self.words(query)).items()}
        whole = math.fsum(weights.values()) or 1.0
        return [math.fsum(weights[word] for word in weights.keys() & self.words(text)) / whole for text in texts]

    def rarity(self, holders: int) -> float:
        """What BM25 counts a word that so many of the nodes have (its inverse document frequency)."""
        return math.log(1 + (self.nodes - holders + 0.5) / (holders + 0.5))

    def searched(self, query: str) -> list[tuple[str, int]]:
        """The words of a query that are searched, with counts: its first ones, and the most frequent others."""
        counts = list(Counter(self.words(query)).items())
        others = Counter(dict(counts[_FIRST_WORDS:]))
        return counts[:_FIRST_WORDS] + others.most_common(_MOST_WORDS - _FIRST_WORDS)

    @reading("the text index")
    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        ranges: Sequence[Range] | None = None,
        among: Collection[int] | None = None,
        name_weight: float = NAME_WEIGHT,
    ) -> list[Hit]:
        """The best ``limit`` nodes that share a word with the query; equal scores by number.

        ``query`` is plain text: it has no operators. ``ranges`` keeps the nodes in any of the ranges (a node type is
        one), ``among`` the nodes given; scores are those of a search without a filter. With a ``name_weight`` of 0 a
        node is one document, in which its name stands as any other words do.
        """
        from tantivy import Occur, Query

        words = self.searched(query)
        if not words or limit < 1 or ranges == [] or (among is not None and not among):
            return []
        wanted = Query.boolean_query(
            [
                (Occur.Should, Query.boost_query(Query.term_query(self._schema, field, word, "freq"), boost * count))
                for word, count in words
                for field, boost in (("name", name_weight), ("body", 1.0))
                if boost
            ]
        )
        if ranges is not None:
            wanted = self._filtered(wanted, [self._range(first, end) for first, end in ranges])
        if among is None:
            return self._top(wanted, limit)
        if len(among) > _TERM_SET:
            return self._top_among(wanted, limit, frozenset(among))
        nodes = Query.term_set_query(self._schema, "number", [int(number) for number in among])
        return self._top(self._filtered(wanted, [nodes]), limit)

    @reading("the text index")
    def _held(self, words: Sequence[str]) -> Mapping[str, int]:
        return {word: self._searcher.doc_freq("body", word) for word in words}

    def _range(self, first: int, end: int) -> tantivy.Query:
        from tantivy import FieldType, Query

        if (first, end) in self._types:  # a list of the type's nodes is quicker to follow than a comparison for each
            return Query.term_query(self._schema, "type", self._types[first, end], "basic")
        few = end - first <= _TERM_SET
        return Query.range_query(
            self._schema, "number", FieldType.Integer, first, end, include_upper=False, use_inverted_index=few
        )

    @staticmethod
    def _filtered(words: tantivy.Query, filters: Sequence[tantivy.Query]) -> tantivy.Query:
        from tantivy import Occur, Query

        anyone = Query.boolean_query([(Occur.Should, filter_) for filter_ in filters])
        return Query.boolean_query([(Occur.Must, words), (Occur.Must, Query.const_score_query(anyone, 0.0))])

    def _top(self, query: tantivy.Query, limit: int) -> list[Hit]:
        found = self._searcher.search(query, min(limit + 1, self._depth), count=False).hits
        if len(found) > limit and found[limit][0] == found[limit - 1][0]:  # the cut falls among equals: see more
            found = self._searcher.search(query, min(limit + _MOST_EQUALS, self._depth), count=False).hits
        numbers = self._searcher.fast_field_values("number", [address for _, address in found])
        hits = [(int(number or 0), float(score)) for number, (score, _) in zip(numbers, found, strict=True)]
        return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:limit]

    def _top_among(self, query: tantivy.Query, limit: int, among: Collection[int]) -> list[Hit]:
        """Read the ranking of all nodes until enough of it is wanted; at first twice what an even spread would need."""
        depth = 2 * limit * max(1, self.nodes // len(among))
        while True:
            ranking = self._top(query, depth)
            hits = [hit for hit in ranking if hit[0] in among]
            if len(hits) >= limit or len(ranking) < depth or depth >= self.nodes:
                return heapq.nsmallest(limit, hits, key=lambda hit: (-hit[1], hit[0]))
            depth *= 8


def build(
    nodes: Iterable[NodeText],
    folder: Path,
    *,
    type_start: Sequence[int],
    progress: Progress = no_progress,
) -> None:
    """Write the index into ``folder``, which must be empty."""
    from tantivy import SchemaBuilder

    builder = SchemaBuilder()
    builder.add_integer_field("number", indexed=True, fast=True)
    builder.add_integer_field("type", indexed=True)
    builder.add_text_field("name", tokenizer_name="words", index_option="freq")
    builder.add_text_field("body", tokenizer_name="words", index_option="freq")
    total, done = type_start[-1], 0
    with writing(folder, builder.build()) as writer:
        for node in nodes:
            writer.add_document(_document(node))
            done += 1
            if done % _REPORT_EVERY == 0:
                progress("text", done, total)
    progress("text", done, total)


def change(nodes: Sequence[NodeText], old: Path, folder: Path) -> None:
    """Write into ``folder``, which must be empty, the index in ``old`` with other texts for some nodes.

    Most of the files are links to the old ones.
    """
    with writing(folder, old) as writer:
        for node in nodes:
            writer.delete_documents_by_term("number", node.number)
            writer.add_document(_document(node))


@contextmanager
def writing(folder: Path, begun: tantivy.Schema | Path) -> Iterator[tantivy.IndexWriter]:
    """What writes an index into an empty folder: a new one of a schema, or one that goes on from that in a folder.

    Raises OSError where the disk is full.
    """
    from tantivy import Index

    with _scratch(folder) as made, _io_errors():
        for file in begun.iterdir() if isinstance(begun, Path) else ():
            link(file, made / file.name)
        index = Index.open(str(made)) if isinstance(begun, Path) else Index(begun, path=str(made))
        index.config_reader("manual")
        index.register_tokenizer("words", analyzer())
        writer = index.writer(_HEAP, 1 if isinstance(begun, Path) else min(os.cpu_count() or 1, 4))
        yield writer
        writer.commit()
        writer.wait_merging_threads()
        for file in made.iterdir():
            if file.suffix != ".lock":  # readers make their own elsewhere
                file.chmod(0o644)  # tantivy leaves two of them readable by their owner only
                file.rename(folder / file.name)


@contextmanager
def _io_errors() -> Iterator[None]:
    """Raise OSError where tantivy raises ValueError for one."""
    try:
        yield
    except ValueError as error:
        if not re.search("IO error|os error", str(error)):
            raise
        raise OSError(str(error)) from error


def _document(node: NodeText) -> tantivy.Document:
    from tantivy import Document

    document = Document()
    document.add_integer("number", node.number)
    document.add_integer("type", node.type)
    for name in (node.name, *node.aliases):
        document.add_text("name", spelled(name))
    document.add_text("body", spelled(node.document))
    return document


@reading("the text index")
def open(folder: Path, type_start: Sequence[int]) -> TextIndex:
    """Open a built index, which may be read-only. Raises DataError where it is missing or damaged."""
    return TextIndex(open_index(folder), type_start)


def open_index(folder: Path) -> tantivy.Index:
    """Open an index that was written, which may be read-only. Raises DataError where it is missing or damaged."""
    from tantivy import Index

    # tantivy wants to write a lock file beside an index it opens. It gets a folder of links for the moment; what it
    # has mapped stays mapped when the links go.
    with _scratch() as links:
        for file in folder.iterdir():
            (links / file.name).symlink_to(file.resolve())
        try:
            index = Index.open(str(links))
            index.config_reader("manual")
            return index
        except (ValueError, OSError) as error:
            raise DataError(f"{folder}: {error}") from error


@contextmanager
def _scratch(parent: Path | None = None) -> Iterator[Path]:
    """A folder for tantivy, gone afterwards.

    A thread that tantivy starts with an index looks for changes once, at any moment, and may put its lock file into a
    folder that is just being emptied. It does so once, so that a second try removes the folder for good.
    """
    folder = Path(tempfile.mkdtemp(prefix="kbnav-text-", dir=parent))
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except OSError:
            shutil.rmtree(folder)


def analyzer() -> tantivy.TextAnalyzer:
    """What makes words of texts."""
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(_LONGEST_WORD))
    return builder.filter(Filter.lowercase()).filter(Filter.ascii_fold()).filter(Filter.stemmer("english")).build()


def spelled(text: str) -> str:
    """The text as it is indexed; ASCII is left as it is, for the index folds its case itself."""
    if text.isascii():
        return text
    bare = _bare_letters()
    folded = unicodedata.normalize("NFKC", text).casefold()
    text = _FOREIGN.sub(lambda letters: letters[0].translate(bare), folded)  # the rest is most of a text, and is quick
    for characters, size in _PIECES:
        text = re.sub(f"[{characters}]+", partial(_pieces, size), text)
    return text


def _pieces(size: int, run: re.Match[str]) -> str:
    return f" {' '.join(run[0][start : start + size] for start in range(max(1, len(run[0]) - size + 1)))} "


@cache
def _bare_letters() -> dict[int, str]:
    table = {}
    for char in map(chr, _ACCENTED):
        parts = [(part, unicodedata.combining(part)) for part in unicodedata.normalize("NFKD", char)]
        kept = [
            part
            for part, place in parts
            if not (place in _POINTS or place in _TONES or place >= _ABOVE_AND_BELOW or part in _SIGNS)
        ]
        bare = unicodedata.normalize("NFC", "".join(kept))
        if bare != char and char not in _LETTERS:
            table[ord(char)] = bare
    return table
