"""How many of STaRK's published questions the templates of its wordings explain, template by template.

A published question does not say its template. ``mor_plan`` holds a metapath that another system's planner read out of
the question's text; it is taken as given. A template explains a question where both have the same links, each a pair
of types (and on Prime a relation), as often, whatever the order and the direction. Where the plan has all links of a
template but one, it is counted beside. Templates that differ in nothing but the relation are told apart on Prime only.

    python -m benchmarks.stark_templates [--data ../shared/data/benchmarks]
"""

from __future__ import annotations

import argparse
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbnav.evaluation.datasets import load_dataset
from kbnav.evaluation.datasets.formats import KBS
from kbnav.evaluation.synthesis.templates import Template, parse_template
from kbnav.evaluation.synthesis.wording import Wording, load_words

Links = Mapping[tuple[str, ...], int]
SPLITS = ("train", "val", "test")


def main() -> None:
    """Print a table for each SKB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/benchmarks"))
    data: Path = parser.parse_args().data
    whole = [0, 0, 0]
    for kb in KBS:
        found = [plan_links(plan) for plan in _plans(kb, data)]
        counts, near, without = explained(_templates(kb), found)
        exact, almost = counts.total(), near.total()
        whole = [a + b for a, b in zip(whole, (len(found), exact, almost), strict=True)]
        told = f"{exact:,} explained, {almost:,} but for one link, {without:,} without a link"
        print(f"\n{kb}: {len(found):,} questions, {told}\n")
        print("| template | explained | but for one link |\n|---|---|---|")
        for name in _named(_templates(kb)):
            print(f"| {name} | {counts[name]:,} | {near[name]:,} |")
    print(f"\nall: {whole[0]:,} questions, {whole[1]:,} explained, {whole[2]:,} but for one link")


def explained(templates: Mapping[str, Links], plans: Iterable[Links]) -> tuple[Counter[str], Counter[str], int]:
    """Questions by the template that explains them, those by one that does but for one link, and those without links.

    A question counts once: for the first template in the order given, and one that explains it goes before one that
    does but for a link.
    """
    exact: Counter[str] = Counter()
    near: Counter[str] = Counter()
    without = 0
    for plan in plans:
        if not plan:
            without += 1
        elif name := next((name for name, links in templates.items() if links == plan), ""):
            exact[name] += 1
        elif name := next((name for name, links in templates.items() if _less_one(links, plan)), ""):
            near[name] += 1
    return exact, near, without


def plan_links(plan: Any) -> Links:
    """The links of a metapath: ``a -> b <- c``, or a list of ``[type, relation, type, …]``."""
    if isinstance(plan, str):
        types = [part.strip() for part in re.split(r"->|<-", plan) if part.strip()]
        return Counter(_link(*pair) for pair in itertools.pairwise(types))
    found: Counter[tuple[str, ...]] = Counter()
    for path in plan or ():
        for first in range(0, len(path) - 2, 2):
            start, relation, end = path[first : first + 3]
            found[_link(str(start), str(end), str(relation))] += 1
    return found


def template_links(template: Template, *, relations: bool) -> Links:
    """The links of a template; with ``relations`` each has its own. A negated one counts as any."""
    found: Counter[tuple[str, ...]] = Counter()
    for branch in template.branches:
        types = [branch.start, *(leg.type for leg in branch.legs)]
        for leg, pair in zip(branch.legs, itertools.pairwise(types), strict=True):
            found[_link(*pair, leg.relation if relations else "")] += 1
    return found


def _link(one: str, other: str, relation: str = "") -> tuple[str, ...]:
    return (*sorted((one, other)), *([relation] if relation else []))


def _less_one(links: Links, plan: Links) -> bool:
    return sum(links.values()) == sum(plan.values()) + 1 and all(
        links.get(link, 0) >= count for link, count in plan.items()
    )


def _templates(kb: str) -> dict[str, Links]:
    read = [parse_template(text) for text in load_words(Wording, f"stark-{kb}").templates]
    return {str(one): template_links(one, relations=kb == "prime") for one in read}


def _named(templates: Mapping[str, Links]) -> Iterator[str]:
    """Each template, but for those that cannot be told from one before."""
    seen: list[Links] = []
    for name, links in templates.items():
        if links not in seen:
            seen.append(links)
            yield name


def _plans(kb: str, data: Path) -> Iterator[Any]:
    for split in SPLITS:
        for question in load_dataset(f"stark-{kb}-{split}", data).questions:
            yield (question.meta.get("mor_plan") or {}).get("Metapath")


if __name__ == "__main__":
    main()
