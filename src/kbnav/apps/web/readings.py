"""Which of several things of one name an answer is about, which others there are, and what the answer were of these."""

from __future__ import annotations

from typing import Any

from kbnav.agents.offline.wikidata import Found
from kbnav.apps.web.service import Served
from kbnav.runs.trajectory import Run
from kbnav.sessions.disambiguation import meanings, other_answers

MOST_OTHERS = 6


def readings(run: Run, served: Served) -> list[dict[str, Any]]:
    """Names that were looked up and that several things have: the one that the answer is about, and the others.

    Where the setting ``ask_back`` wants it, the others have the ``answer`` that they would have given, if it is another
    one; ``ask``: which is meant is to be asked before the answer is shown.
    """
    told: dict[tuple[str, str], str] = {}
    if served.settings.ask_back != "never":
        told = {(one.name, one.meant.id): one.text for one in other_answers(run, served.kb)}
    return [
        {
            "name": one.name,
            "taken": _data(one.taken, served),
            "others": [
                {**_data(other, served), "answer": told.get((one.name, other.id), "")}
                for other in one.others[:MOST_OTHERS]
            ],
            "ask": served.settings.ask_back == "ask" and any(name == one.name for name, _ in told),
        }
        for one in meanings(run, served.kb)
    ]


def _data(one: Found, served: Served) -> dict[str, str]:
    return {"id": one.id, "label": one.label or one.id, "about": one.about, "href": served.link(one.id)}
