"""Worker processes of one server count together for Prometheus."""

from __future__ import annotations

from pathlib import Path

from tests.apps.web.parts import MARIE, Visit, served_process
from tests.apps.web.test_metrics import TOKEN, value


def test_worker_processes_count_together(fresh_home: Path, database: str):
    settings = {"KBNAV_WEB__DATABASE": database, "KBNAV_WEB__WORKERS": "2", "KBNAV_WEB__METRICS_TOKEN": TOKEN}
    with served_process(fresh_home, "--kb", "mini", environment=settings) as (url, process):
        visit = Visit(url)
        for _ in range(6):
            visit.answered(visit.session(), MARIE)
        labels = {"kb": "mini", "system": "spinach", "model": "offline", "status": "done"}
        assert value(url, "kbnav_questions_total", **labels) == 6
        assert value(url, "kbnav_questions_at_work") == 0
        process.terminate()
        process.wait(60)
