"""What paths of an SKB make of a question: the reading on one line, the words left out, and names that are nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from kbnav.answers.language import fold
from kbnav.answers.lexicon import lexicon
from kbnav.answers.relevance import relevance
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.question_paths import Path
from kbnav.knowledge.skb.question_reading import Mention, Reading
from kbnav.runs.trajectory import Understood

_NOUNS_HAVE_CAPITALS = frozenset({"de", "lb"})
_NOT_TELLING = frozenset(["somebody", "someone", "something", "anybody", "anyone", "anything", "everybody"])


def understood(
    kb: SkbKB, reading: Reading, mentions: Sequence[Mention], paths: Sequence[Path], nodes: Sequence[str], language: str
) -> Understood:
    """How the question is read, as in ``instrument → made by → person → born in → Little Mew``.

    ``unused`` are names that no path begins at, and words that name no relation of a path and that the document of the
    first of ``nodes`` does not have. They stand in the question's order.
    """
    used = set().union(*(path.used for path in paths)) if paths else set()
    started = {path.node for path in paths}
    names = [one for one in mentions if one.end > one.first and started.isdisjoint(one.nodes)]
    light = _NOT_TELLING | lexicon(language).light
    document = fold(kb.get_entry(nodes[0]).document) if nodes else ""
    places = {one.first: one.text for one in names}
    for place in reading.words:
        token = reading.tokens[place]
        if place not in used and token.low not in light and not _says(document, token.low):
            places[place] = token.text
    unused = dict.fromkeys(text for _, text in sorted(places.items()))
    return Understood("; ".join(_way(kb, path) for path in paths), tuple(unused))


def names_nowhere(kb: SkbKB, reading: Reading, read: Understood, language: str) -> list[str]:
    """Words left out that look like names, and that neither a name nor a document here has.

    Of other words that are left out nothing follows: documents say the same in other words, and rank what was found.
    """
    if language.split("-")[0] in _NOUNS_HAVE_CAPITALS or kb.skb.text is None:
        return []
    named = [token.text for token in reading.tokens[1:] if token.text[:1].isupper() and token.text in read.unused]
    return [name for name in named if not any(map(kb.skb.text.holders, kb.skb.text.words(name)))]


def smaller(kb: SkbKB, paths: Sequence[Path]) -> tuple[str, ...]:
    """A question that the first path answers, of one name and its relations; none where no type is asked for."""
    kind, relations = paths[0].target.replace("_", " "), [step.relation.replace("_", " ") for step in paths[0].steps]
    said = " of ".join(relation or "linked to" for relation in reversed(relations))
    return (f"Which {kind}: {said} {kb.skb.nodes.label(paths[0].node)}?",) if kind else ()


def lost_words(reading: Reading, paths: Sequence[Path], before: Sequence[Sequence[Path]]) -> list[str]:
    """Words that earlier paths, which led to nothing, read as relations and these do not."""
    used = set().union(*(path.used for path in paths))
    wanted = set().union(*(path.used for some in before for path in some))
    return [reading.tokens[place].text for place in sorted(wanted - used)]


def _way(kb: SkbKB, path: Path) -> str:
    """From what is asked for to the name."""
    parts = [kb.skb.nodes.label(path.node)]
    for step in path.steps:
        parts += [step.relation.replace("_", " ") or "anything", step.target.replace("_", " ") or "?"]
    return " → ".join(reversed(parts))


def _says(text: str, word: str) -> bool:
    """Whether a text has a word, in any of its endings."""
    return fold(word) in text or relevance(word, [text])[0] > 0
