"""The BM25 index of an SKB: names, aliases and documents, in a tantivy index inside the SKB's folder; that of names.

Two fields are searched. ``name`` holds the name and the aliases, ``body`` holds them again with the document, so that a
word of the question may match either, and a match in ``name`` counts twice. On WordNet, asked with 2,000 of its example
sentences, this finds more than ``body`` alone (recall@20 0.61 against 0.43), than weights of 1 or 4, and than the
better of the two fields in place of their sum.

Words are stemmed, and freed of case, accents, tones and vowel points ("Αθήνας" and "ΑΘΗΝΑΣ", "за́мок" and "замок" are
one). Scripts that put no space between words are cut into pieces that overlap: Chinese, Japanese and Korean into two
characters, Thai, Lao, Burmese and Khmer into three.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import os
import re
import shutil
import tempfile
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from kbnav.answers.language import SCRIPTS
from kbnav.errors import DataError
from kbnav.knowledge.skb.files import Strings, check_starts, link, open_array, reading, write_strings
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


# Names, as they are written, normalised, or with a letter or two wrong, among millions and from disk. Normalised names,
# each once and sorted, are the keys: an exact or normalised match is a binary search. For a fuzzy match a Levenshtein
# automaton is laid over the keys, which tantivy has in a tree: no name within the allowed edits is missed.

How = Literal["exact", "normalised", "fuzzy"]

_ONE_WRONG, _TWO_WRONG = 4, 8  # letters of a key from which on so many edits are allowed
_LONGEST = 255  # letters of a key that a fuzzy match is looked for: automata grow with them
_MOST_NEAR = 10_000  # keys


class Match(NamedTuple):
    """A node whose name or alias matches; ``score`` is 1 for exact and normalised matches, else rapidfuzz's ratio."""

    number: int
    score: float
    how: How


def normalise(name: str) -> str:
    """The letters, digits and symbols of a name without case and accents: "Straße-Köln" and "strasse koln" are equal.

    Space goes as well, so that "IL-6", "IL 6" and "IL6" are one. A name of nothing but punctuation keeps it.
    """
    if name.isascii():  # the same, ten times as fast
        return name.lower().translate(_ASCII_PUNCTUATION) or name.lower().translate(_ASCII_SPACE)
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold())
    # Accents and vowel points have a combining class from 10 on, marks that tell kana or Indic letters apart have not.
    marked = [char for char in folded if unicodedata.category(char)[0] not in "ZC" and unicodedata.combining(char) < 10]
    kept = [char for char in marked if unicodedata.category(char)[0] != "P"] or marked
    return unicodedata.normalize("NFC", "".join(kept))


_ASCII_SPACE = {code: None for code in range(128) if unicodedata.category(chr(code))[0] in "ZC"}
_ASCII_PUNCTUATION = {code: None for code in range(128) if unicodedata.category(chr(code))[0] in "ZCP"}


def edits_allowed(length: int) -> int:
    """How many insertions, deletions and replacements a fuzzy match may need, for a normalised name so long."""
    return 0 if length < _ONE_WRONG or length > _LONGEST else 1 if length < _TWO_WRONG else 2


def build_names(
    nodes: Iterable[NodeText], folder: Path, *, type_start: Sequence[int], progress: Progress = no_progress
) -> None:
    """Write the index into ``folder``, which must be empty. Needs about 1 kB of memory a name while it runs."""
    from tantivy import Document, SchemaBuilder

    names: dict[str, list[tuple[int, int]]] = {}
    for done, node in enumerate(nodes, start=1):
        for name in dict.fromkeys((node.name, *node.aliases)):
            if key := normalise(name):
                names.setdefault(key, []).append((node.number, _fingerprint(name)))
        if done % _REPORT_EVERY == 0:
            progress("names", done, type_start[-1])
    keys = sorted(names, key=str.encode)
    holders = [names[key] for key in keys]
    np.save(folder / "holders.npy", np.array([number for number, _ in chain.from_iterable(holders)], np.int32))
    np.save(folder / "written.npy", np.array([mark for _, mark in chain.from_iterable(holders)], np.uint64))
    np.save(folder / "holders-start.npy", np.cumsum([0, *map(len, holders)]))
    write_strings(folder, "keys", keys)
    builder = SchemaBuilder()
    builder.add_text_field("key", tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("place", fast=True)
    with writing(folder, builder.build()) as writer:
        for place, key in enumerate(keys):
            document = Document()
            document.add_integer("place", place)
            document.add_text("key", key)
            writer.add_document(document)
    progress("names", type_start[-1], type_start[-1])


class NameIndex:
    """An open index; safe to share between threads. Use ``open_names``."""

    def __init__(self, folder: Path) -> None:
        self._keys = Strings(folder, "keys")
        self._key = self._keys.encoded
        self._places = range(len(self._keys))
        self._holders = open_array(folder / "holders.npy", np.int32)
        self._written = open_array(folder / "written.npy", np.uint64)
        self._holders_start = open_array(folder / "holders-start.npy", np.int64)
        index = open_index(folder)
        self._schema, self._searcher = index.schema, index.searcher()
        check_starts(folder / "holders-start.npy", self._holders_start, len(self._holders))
        if not len(self._places) == len(self._holders_start) - 1 == self._searcher.num_docs:
            raise DataError(f"{folder}: the files of the names do not fit together")

    def __len__(self) -> int:
        """Number of different normalised names."""
        return len(self._places)

    @reading("the index of names")
    def search(
        self,
        name: str,
        *,
        limit: int = 20,
        ranges: Sequence[tuple[int, int]] | None = None,
        edits: int | None = None,
    ) -> list[Match]:
        """Nodes with such a name or alias, best first: exact, then normalised, then fuzzy by falling ratio.

        Every node comes once; equal matches are in order of numbers. ``ranges`` of node numbers keep the nodes of some
        types. ``edits`` is how many letters may be wrong, 2 at most: by default that goes by the name's length.
        """
        key = normalise(name)
        found: dict[int, Match] = {}
        if key:
            allowed = edits_allowed(len(key)) if edits is None else edits
            for match in [*self._equal(key, name), *self._similar(key, allowed)]:
                if ranges is None or any(first <= match.number < end for first, end in ranges):
                    found.setdefault(match.number, match)
        return list(found.values())[: max(limit, 0)]

    def runs(self, words: Sequence[str], lasts: Sequence[str]) -> Iterator[tuple[int, bool]]:
        """Of how many of the first ``words``, which are normalised, there is a name; shortest first.

        ``lasts`` has another form of each word, empty where it has none, that may stand for it at a name's end; True
        where the name has that. The search goes on from prefix to prefix and ends where no name begins so.
        """
        prefix, low = b"", 0
        for count, (word, last) in enumerate(zip(words, lasts, strict=True), start=1):
            longer = prefix + word.encode()
            if last:
                ended = prefix + last.encode()
                place = self._first(ended, low)
                if place < len(self) and self._key(place) == ended:
                    yield count, True
                if ended < longer:  # as "gene" before "genes", which is then near
                    low = place
            prefix = longer
            low = self._first(prefix, low)
            key = self._key(low) if low < len(self) else b""
            if key == prefix:
                yield count, False
            elif not key.startswith(prefix):
                return

    def _first(self, wanted: bytes, low: int = 0) -> int:
        """The first key at ``low`` or behind it that is not less: in growing steps, for it is near when ``low`` > 0."""
        size = len(self)
        step = 1 if low else size
        while low + step < size and self._key(low + step) < wanted:
            low += step
            step *= 2
        return bisect_left(self._places, wanted, low, min(low + step, size), key=self._key)

    def _equal(self, key: str, name: str) -> list[Match]:
        wanted = key.encode()  # the keys are in order of their bytes
        place = self._first(wanted)
        if place == len(self) or self._key(place) != wanted:
            return []
        held = self._held(place)
        same = self._written[held] == np.uint64(_fingerprint(name))
        numbers = self._holders[held]
        exact = [Match(number, 1.0, "exact") for number in sorted(numbers[same].tolist())]
        return exact + [Match(number, 1.0, "normalised") for number in sorted(numbers[~same].tolist())]

    def _similar(self, key: str, edits: int) -> list[Match]:
        from rapidfuzz.distance import Indel
        from tantivy import Query

        if edits < 1:
            return []
        near = Query.fuzzy_term_query(self._schema, "key", key, distance=edits, transposition_cost_one=False)
        found = self._searcher.search(near, min(_MOST_NEAR, len(self)), count=False).hits if len(self) else []
        places = self._searcher.fast_field_values("place", [address for _, address in found])
        matches = [
            Match(number, Indel.normalized_similarity(key, other), "fuzzy")
            for place in (int(one or 0) for one in places)
            if (other := self._keys[place]) != key
            for number in self._holders[self._held(place)].tolist()
        ]
        return sorted(matches, key=lambda match: (-match.score, match.number))

    def _held(self, place: int) -> slice:
        return slice(*self._holders_start[place : place + 2])


@reading("the index of names")
def open_names(folder: Path) -> NameIndex:
    """Open a built index, which may be read-only. Raises DataError where it is missing or damaged."""
    return NameIndex(folder)


def _fingerprint(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
