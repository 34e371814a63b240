"""Twenty downloads of one large result at the same time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.apps.web.parts import Visit, served_process

ROWS, MANY = 20_000, 20
QUERY = f"SELECT ?a ?b ?c {{ ?a ?b ?c . ?d ?e ?f }} LIMIT {ROWS}"
MOST = 300_000
"""Kilobytes above what the server takes when nobody asks."""


def kilobytes(process: int, what: str) -> int:
    """A process's memory now (``VmRSS``), or the most that it has ever had (``VmHWM``)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


@pytest.mark.slow
def test_twenty_downloads_at_once_take_little_memory(fresh_home):
    with served_process(fresh_home, "--kb", "demo") as served:  # two of one reader are sent at once, the others wait
        url, process = served
        visit = Visit(url)
        visit.answered(visit.session(), "Who made the compass?")
        idle = kilobytes(process.pid, "VmRSS")
        result = visit("POST", "/api/queries", {"query": QUERY, "kb": "demo"}).json()["result"]
        assert result["rows"] == ROWS

        def load(form: str) -> int:
            with visit.http.get(f"{url}/api/results/{result['id']}/{form}", stream=True, timeout=250) as response:
                assert response.status_code == 200, response.text
                return sum(map(len, response.iter_content(1 << 16)))

        with ThreadPoolExecutor(MANY) as pool:
            sizes = list(pool.map(load, ["json", "csv", "tsv", "csv"] * (MANY // 4)))
        assert min(sizes) > 500_000
        assert kilobytes(process.pid, "VmHWM") - idle < MOST
