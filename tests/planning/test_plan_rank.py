"""``plan-rank``: scores are the probabilities of PASemiQA's equations 1 and 2, worked out by hand on a small clinic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbnav.errors import UsageError
from kbnav.knowledge.skb.kb import SkbKB
from kbnav.knowledge.skb.store import SKB
from kbnav.planning.paths import Hop, Plan, PlannedPath
from kbnav.planning.plan_rank import PlanRank, PlanRankOptions
from kbnav.retrieval.base import build_retriever
from kbnav.runs.trace import Trace
from kbnav.settings.model import Settings

PLAN = Plan(
    (
        PlannedPath((Hop("associated"),), 0.6, "disease", ("disease", "gene")),
        PlannedPath((Hop("associated"), Hop("part_of")), 0.3, "disease", ("disease", "gene", "pathway")),
        PlannedPath((), 0.1),
    )
)


class Given:
    """A planner that gives the plan whatever is asked."""

    name = "given"

    def plan(self, question: str, nodes: Sequence[str], trace: Trace | None = None) -> Plan:
        return PLAN if nodes else Plan()


@pytest.fixture
def kb(clinic: SKB) -> SkbKB:
    return SkbKB(clinic)


def ranked(kb: SkbKB, query: str, **options: object) -> list[tuple[str, float]]:
    chosen = PlanRankOptions.model_validate({"matching": "exact", **options})
    ranking = PlanRank(kb, Given(), chosen).retrieve(query, 10)
    return [(node.id, node.score) for node in ranking.nodes]


def test_a_node_scores_the_probability_that_the_plan_gives_it(kb: SkbKB) -> None:
    # gout: associated leads to g1 and g2, with part_of to p1; text to the one node that fits best, the named left out
    found = ranked(kb, "What citric has to do with gout?", text_nodes=1)
    assert dict(found) == {"p1": pytest.approx(0.3 + 0.1), "g1": pytest.approx(0.6 / 2), "g2": pytest.approx(0.6 / 2)}
    assert found[0][0] == "p1"


def test_without_nodes_of_text_its_probability_goes_to_none_and_ties_stand_by_text(kb: SkbKB) -> None:
    found = ranked(kb, "What gene XYZ2 or citric cycle has gout?", text_nodes=0, candidates=("gene",))
    assert [score for _, score in found] == [pytest.approx(0.3), pytest.approx(0.3)]
    assert [node for node, _ in found] == ["g2", "g1"]  # by number g1 came first; XYZ2 is in the query
    assert ranked(kb, "nothing of the kind") == []


def test_it_is_a_system_by_name_with_the_planners_options(kb: SkbKB, tmp_path: Path) -> None:
    retriever = build_retriever("plan-rank", kb, Settings(home=tmp_path), {"planner": "none"})
    trace = Trace()
    assert retriever.retrieve("Which drug treats gout?", 3, trace).ids == []
    assert [step.call.tool for step in trace.steps] == ["match", "plan", "text"]
    with pytest.raises(UsageError, match="there is no node type 'boat'"):
        PlanRank(kb, Given(), PlanRankOptions(candidates=("boat",)))
    with pytest.raises(UsageError, match="no trained planner"):
        build_retriever("plan-rank", kb, Settings(home=tmp_path), {"trained": str(tmp_path)})
