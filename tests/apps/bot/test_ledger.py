"""The bot's state: what is remembered, and that only one bot writes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kbnav.apps.bot.ledger import Ledger
from kbnav.apps.bot.talk import Question
from kbnav.errors import UsageError

FIRST = Question("a" * 16, "P", "S", "Ann", "12:00", "Who?", 1, ("b" * 16, "c" * 16))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    one = Ledger(tmp_path / "new" / "bot.sqlite")
    yield one
    one.close()


@pytest.mark.parametrize("end", ["gone", "refused"])
@pytest.mark.parametrize("asked", [{"status": "answered", "reply": "R", "tries": 0}, {"tries": 1}])
def test_quotas_count_what_a_model_was_asked_whatever_became_of_it(ledger, asked, end):
    ledger.add(FIRST, 100.0)
    ledger.update(FIRST.id, 110.0, **asked)
    ledger.update(FIRST.id, 120.0, status=end)
    assert ledger.asked_since(100.0, "Ann") == 1


def test_one_bot_writes_others_read(ledger, tmp_path):
    path = tmp_path / "new" / "bot.sqlite"
    ledger.add(FIRST, 1.0)
    with pytest.raises(UsageError, match="another bot is running"):
        Ledger(path)
    reader = Ledger(path, alone=False)
    assert len(reader.entries()) == 1
    reader.close()
