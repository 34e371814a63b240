"""ToG's beam: the links by which nodes were reached, how links and nodes are weighed, and chains of relations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kbnav.answers.relevance import relevance
from kbnav.knowledge.base import INVERSE
from kbnav.runs.trajectory import Fact, Step
from kbnav.tools.walking import fact_text, fresh


class Weighed(NamedTuple):
    """A link with the product of its relation's score and its own (ToG, section 2.1)."""

    fact: Fact
    score: float


def inverse(relation: str) -> str:
    """The relation followed the other way."""
    return relation.removeprefix(INVERSE) if relation.startswith(INVERSE) else f"{INVERSE}{relation}"


def kept_facts(path: Sequence[Step]) -> list[Fact]:
    """The links by which each depth's nodes were reached from the depth before."""
    known: list[Fact] = []
    found: list[Fact] = []
    for step in path:
        if step.call.tool == "search_relations":
            beam = set(step.call.arguments["entity_ids"])
            known += [fact for fact in found if fact.target in beam]
            found = []
        elif step.call.tool == "follow_relations":
            found += step.facts
    return fresh(known, ())


def offered(facts: Iterable[Fact], known: Iterable[Fact]) -> list[Fact]:
    """The relations of the nodes reached, without those by which they were reached, backwards."""
    back = {(fact.target, inverse(fact.relation)) for fact in known}
    return [fact for fact in dict.fromkeys(facts) if (fact.source, fact.relation) not in back]


def best_of_each(
    facts: Sequence[Fact], scores: Mapping[int, float], width: int, fit: Sequence[float] = ()
) -> list[tuple[int, float]]:
    """Places of the ``width`` best of every source, best first; those scored 0 are none.

    Of equal scores those come first that ``fit`` the question better, by place; then those of earlier ids.
    """
    taken: dict[str, int] = {}
    chosen = []

    def order(pair: tuple[int, float]) -> tuple[float, float, str, str]:
        place, score = pair
        return -score, -fit[place] if fit else 0.0, facts[place].source, facts[place].relation

    for place, score in sorted(scores.items(), key=order):
        source = facts[place].source
        if score > 0 and taken.get(source, 0) < width:
            taken[source] = taken.get(source, 0) + 1
            chosen.append((place, score))
    return chosen


def best_links(links: Iterable[Weighed], reached: Collection[str], question: str = "") -> list[Weighed]:
    """Links by the scores of the nodes they lead to, best first; those scored 0 are none.

    A node counts for more the more of the nodes reached link to it, as independent evidence does: its score is
    1 - (1 - a)(1 - b)… over the best link from each. A link that joins two nodes reached comes before others as good;
    then those whose relation and names fit the ``question`` better, then those to earlier ids. Without a question
    equal ones stay as they come.
    """
    counting = [link for link in links if link.score > 0]
    whole = _node_scores(counting)
    if question:  # the sort below keeps the order of equals
        fit = relevance(question, [fact_words(link.fact) for link in counting])
        by_fit = sorted(range(len(counting)), key=lambda place: (-fit[place], counting[place].fact.target))
        counting = [counting[place] for place in by_fit]
    return sorted(counting, key=lambda link: (-whole[link.fact.target], link.fact.target not in reached, -link.score))


def tied(links: Sequence[Weighed], beam: Sequence[str], reached: Collection[str]) -> bool:
    """Whether a node that was left out of a beam is scored as the last one in it is."""
    whole = _node_scores(links)
    out = [score for node, score in whole.items() if node not in beam and node not in reached]
    return bool(beam) and whole[beam[-1]] in out


def _node_scores(links: Sequence[Weighed]) -> dict[str, float]:
    """The scores of the nodes that links lead to, as ``best_links`` has them."""
    best: dict[str, dict[str, float]] = {}
    for fact, score in links:
        sources = best.setdefault(fact.target, {})
        sources[fact.source] = max(sources.get(fact.source, 0.0), score)
    missing = dict.fromkeys(best, 1.0)
    for target, sources in best.items():
        for score in sources.values():
            missing[target] *= 1 - min(score, 1.0)
    return {target: 1 - left for target, left in missing.items()}


def fact_words(fact: Fact) -> str:
    """The words of a link by which it is compared with a question."""
    return f"{fact.relation_name or fact.relation} {fact.target_name}".replace("_", " ")


def chains(known: Sequence[Fact], last: Iterable[Fact]) -> list[str]:
    """``Ann Reed (p1): owns → located in → Coldwick (t1)``: the relations that lead to each last link's end (ToG-R)."""
    before = {fact.target: fact for fact in reversed(known)}
    lines = []
    for fact in last:
        way = [fact]
        while (earlier := before.get(way[0].source)) and earlier not in way:
            way.insert(0, earlier)
        names = " → ".join(
            ("^" if one.relation.startswith(INVERSE) else "")
            + (one.relation_name or one.relation.removeprefix(INVERSE))
            for one in way
        )
        start = f"{way[0].source_name} ({way[0].source})" if way[0].source_name else way[0].source
        end = f"{fact.target_name} ({fact.target})" if fact.target_name not in ("", fact.target) else fact.target
        lines.append(f"{start}: {names} → {end}")
    return list(dict.fromkeys(lines))


def support(answers: Sequence[str], best: Sequence[Fact], known: Sequence[Fact]) -> list[str]:
    """The links that lead to the answers, best first, and then those that lead to these."""
    to_answers = [fact for fact in best if {fact.source, fact.target} & set(answers)]
    ends = {end for fact in to_answers for end in (fact.source, fact.target)}
    before = [fact for fact in known if fact.target in ends or fact.source in ends]
    return [fact_text(fact) for fact in fresh([*to_answers, *before], ())]
