"""Many different simple questions of the bundled mirror, made of its data by rule, with what a quiet server answers."""

from __future__ import annotations

import random
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.apps.web.parts import Visit, served_process

TEMPLATES = {
    "P61": "Who discovered {}?",
    "P575": "When was {} discovered?",
    "P1086": "What is the atomic number of {}?",
    "P246": "What is the symbol of {}?",
    "P138": "What is {} named after?",
    "P569": "When was {} born?",
    "P570": "When did {} die?",
    "P19": "Where was {} born?",
    "P20": "Where did {} die?",
    "P106": "What is the occupation of {}?",
    "P166": "Which awards did {} receive?",
    "P36": "What is the capital of {}?",
    "P1082": "What is the population of {}?",
}
"""A question about each entity that has a statement with the property, as an English reader would put it."""
LABELS = 'SELECT DISTINCT ?label {{ ?s wdt:{} ?o ; rdfs:label ?label FILTER(LANG(?label) = "en") }} ORDER BY ?label'


def varied() -> dict[str, str]:
    """The questions that are answered, in an order drawn once, and their answers.

    They come of a server of its own, which is ended: the one that is measured has seen none of them before.
    """
    with tempfile.TemporaryDirectory() as home, served_process(Path(home), "--kb", "mini") as (url, process):
        threading.Thread(target=list, args=(process.stdout,), daemon=True).start()
        visit = Visit(url)
        questions = [
            template.format(label) for of, template in TEMPLATES.items() for label in _labels(visit, LABELS.format(of))
        ]

        def answer(question: str) -> str:
            told = visit("POST", "/api/ask", {"question": question, "kb": "mini"}).json()
            return str(told["text"]) if told["status"] == "answered" else ""

        with ThreadPoolExecutor(2) as pool:
            found = [pair for pair in zip(questions, pool.map(answer, questions), strict=True) if pair[1]]
    random.Random(1).shuffle(found)
    return dict(found)


def _labels(visit: Visit, query: str) -> list[str]:
    result = visit("POST", "/api/queries", {"query": query, "kb": "mini"}).json()["result"]
    rows = visit("GET", f"/api/results/{result['id']}/rows?limit=200").json()["rows"]
    return [row[0]["text"] for row in rows]
