"""The stand-in's rules for the agents that walk along links: what their prompts hold, read back; nothing is understood.

It scores by shared words, takes the first links found for enough, names the ends of the paths it is shown, supplies no
facts, and plans the relation paths whose names and types share most words with the question. What an agent scores with
it shows that the agent runs, and what its course alone is worth.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kbnav.answers.relevance import relevance

_QUESTION = re.compile(r"^Question: (.+?)(?: \(asked after: .*\))?$", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+)\. (.+)$", re.MULTILINE)
_MOST = re.compile(r"at most (\d+)")
_LINK = re.compile(r"^(?:- )?(.+?) -- .+? --> (.+?\([^()]+\)|.+?)(?: \[generated\])?(?:[;:] .*)?$")
_BRACKETS = re.compile(r"\(([^()]+)\)$")
_NAMED = re.compile(r"^- .+ \(([^()]+)\): .+$", re.MULTILINE)
_PATH = re.compile(r"^- (.+) \[(\d\.\d\d)\]$", re.MULTILINE)
_HOP = re.compile(r"<-- (.+?) -- |-- (.+?) --> ")
_EDGE = re.compile(r"^(.+?) -- (.+?) --> (.+?)(?:, as in: .*)?$", re.MULTILINE)
_KIND = re.compile(r"^- .+ \(([^()]+)\)$", re.MULTILINE)
_QUERY = re.compile(r"^Query: (.+)$", re.MULTILINE)
_STARTS = 3
_PLANNED = 3
_ANSWERS = 20


def walk_answer(prompt: str) -> str | None:
    """The reply to a prompt of these agents; None for any other."""
    for head, reply in _REPLIES.items():
        if prompt.startswith(head):
            return reply(prompt)
    return None


def _question(prompt: str) -> str:
    found = _QUESTION.search(prompt)
    return found[1] if found else ""


def _ranked(prompt: str) -> list[tuple[int, float]]:
    """The numbered lines by the words they share with the question, those without any last."""
    lines = _NUMBERED.findall(prompt)
    scores = relevance(_question(prompt), [text.replace("_", " ") for _, text in lines])
    best = max(scores, default=0.0) or 1.0
    found = [(int(number), score / best) for (number, _), score in zip(lines, scores, strict=True)]
    most = _MOST.search(prompt)
    return sorted(found, key=lambda pair: -pair[1])[: int(most[1]) if most else None]


def _scores(prompt: str) -> str:
    return "\n".join(f"{number}: {max(score, 0.01):.2f}" for number, score in _ranked(prompt))


def _kept(prompt: str) -> str:
    return ", ".join(str(number) for number, _ in _ranked(prompt))


def _enough(prompt: str) -> str:
    """The first links that are known are taken for the answer."""
    ends = _far_ends(prompt)
    return "\n".join(["yes" if ends else "no", *(f"- {node}" for node in ends)])


def _named(prompt: str) -> str:
    """The ends of the paths shown, those of the most paths first; without paths, the first node found by text."""
    ends = _far_ends(prompt) or re.findall(r"\(([^()]+)\): ", prompt.partition("documents fit the question:\n")[2])[:1]
    return "\n".join(f"- {node}" for node in ends) or "unknown"


def _far_ends(prompt: str) -> list[str]:
    """Of each line's last link the end that fewer lines speak of, seldom where they begin; common ones first."""
    lines = [line.split(" ; ") for line in prompt.splitlines() if line.startswith("- ")]
    spoken = Counter(node for links in lines for node in dict.fromkeys(end for link in links for end in _ends(link)))
    last = [_ends(links[-1])[::-1] for links in lines]
    ends = Counter(min(pair, key=lambda node: spoken[node]) for pair in last if pair)
    return [node for node, _ in ends.most_common(_ANSWERS)]


def _ends(link: str) -> list[str]:
    """The ids of the two ends of ``A (id) -- relation --> B (id)``; an end without one is its own id."""
    found = _LINK.match(link)
    ends = found.groups() if found else ()
    return [bracketed[1] if (bracketed := _BRACKETS.search(end)) else end for end in ends]


def _paths(prompt: str) -> str:
    """The paths of one or two relations from the types of the named nodes that share most words with the question."""
    edges, _, rest = prompt.partition("\n</documents>")
    steps = [step for one, name, two in _EDGE.findall(edges) for step in ((one, name, two), (two, f"^{name}", one))]
    kinds = set(_KIND.findall(rest))
    firsts = [([name], [one, name, two]) for one, name, two in steps if one in kinds]
    longer = [
        ([*names, name], [*said, name, two]) for names, said in firsts for one, name, two in steps if one == said[-1]
    ]
    paths = [*firsts, *longer]
    question = _QUERY.findall(rest)
    scores = relevance(question[-1] if question else "", [" ".join(said).replace("_", " ") for _, said in paths])
    best = sorted(range(len(paths)), key=lambda place: -scores[place])[:_PLANNED]
    return "\n".join(f"<PATH>{'<SEP>'.join(paths[place][0])}</PATH>" for place in best) or "<PATH>text</PATH>"


def _unknown(prompt: str) -> str:  # noqa: ARG001 - as all replies
    return "unknown"


_REPLIES: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "Which relations lead towards": _scores,
        "Which of these links help": _scores,
        "Which of these links matter most": _kept,
        "Do these facts suffice": _enough,
        "Answer a question from what a graph shows": _named,
        "You plan how to answer a question": _paths,
        "A knowledge base lacks some facts": _unknown,
        "A knowledge base did not give": _unknown,
    }
)
"""By the first words of the prompts under ``prompts/walking``, ``tog``, ``rog`` and ``planner``."""


def walk_call(messages: Sequence[BaseMessage]) -> AIMessage:
    """The next tool call of ``pasemiqa`` and ``gog``: the plan's likeliest path, or any link, then finish."""
    said = [place for place, message in enumerate(messages) if isinstance(message, HumanMessage)]
    asked = next((place for place in reversed(said) if _NAMED.search(messages[place].text)), said[-1])
    calls = [call for message in messages[asked:] if isinstance(message, AIMessage) for call in message.tool_calls]
    results = {m.tool_call_id: m.text for m in messages[asked:] if isinstance(m, ToolMessage)}
    plan = messages[asked].text  # the question, with the nodes to begin with and the plan behind it
    paths = [_relations(text) for text, _ in _PATH.findall(plan)]
    relations = next((path for path in paths if path), [""])
    done = [call for call in calls if call["name"] == "search_neighbors"]
    levels: list[list[str]] = [_NAMED.findall(plan)[:_STARTS]]
    for hop in relations:
        of_hop = {
            str(call["args"].get("entity_id")): results.get(str(call["id"]), "")
            for call in done
            if call["args"].get("relation", "") == hop
        }
        missing = [node for node in levels[-1] if node not in of_hop]
        if missing:
            return _calls("search_neighbors", [{"entity_id": node, "relation": hop} for node in missing])
        reached = Counter(end for node in levels[-1] for end in dict.fromkeys(_others(of_hop[node], node)))
        levels.append([node for node, _ in reached.most_common(_ANSWERS)])
        if hop is not relations[-1]:
            levels[-1] = levels[-1][:_STARTS]
    return _calls("finish", [{"nodes": levels[-1]}])


def _relations(path: str) -> list[str]:
    return [f"^{back}" if back else out for back, out in _HOP.findall(f"{path} ")]


def _others(result: str, node: str) -> list[str]:
    lines = [line for line in result.splitlines() if line.startswith("- ")]
    return [end for line in lines for end in _ends(line) if end != node]


def _calls(tool: str, arguments: Sequence[dict[str, Any]]) -> AIMessage:
    calls = [{"name": tool, "args": {"thought": "By rule.", **given}, "id": f"{tool}-{given}"} for given in arguments]
    return AIMessage("", tool_calls=calls)
