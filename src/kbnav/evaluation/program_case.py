"""One question as a case study: a plain search beside a program (Agent Retriever, Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence

from kbnav.knowledge.skb.kb import SkbKB
from kbnav.programs.retriever import AgentRetriever
from kbnav.programs.trials import TrainingQuery
from kbnav.retrieval.build import build_retriever
from kbnav.settings import Settings
from kbnav.trace import Trace

_SHOWN = 5


def case_study(kb: SkbKB, settings: Settings, retriever: AgentRetriever, question: TrainingQuery) -> str:
    """The first nodes of ``vss`` (of ``bm25`` where there are no vectors) beside the program's, right ones marked."""
    other = "vss" if kb.skb.vectors is not None else "bm25"
    trace = Trace()
    lists = {
        other: build_retriever(other, kb, settings, {}).retrieve(question.text, _SHOWN).ids,
        retriever.name: retriever.retrieve(question.text, _SHOWN, trace).ids,
    }
    told = [f"{question.id}: {question.text}"]
    for name, ids in lists.items():
        told += ["", f"{name} ranks first:", *_marked(kb, ids, question.answers)]
    for step in trace.steps:
        if step.call.tool in ("route", "program"):
            told += ["", f"{step.call.tool}: {step.observation}"]
    return "\n".join(told)


def _marked(kb: SkbKB, ids: Sequence[str], answers: Sequence[str]) -> list[str]:
    return [
        f"{'*' if node in answers else ' '} {place}. {kb.skb.nodes.label(kb.skb.number(node))} ({node})"
        for place, node in enumerate(ids, 1)
    ]
