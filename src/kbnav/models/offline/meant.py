"""What a reader says a name stands for, behind the question: ``Which rivers flow through Paris? (Paris: Q830149)``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kbnav.models.offline.folding import fold

_MEANT = re.compile(r"\s*\(([^():]{1,200}): ([^()\s]{1,200})\)")


def split_meant(question: str) -> tuple[str, Mapping[str, str]]:
    """The question without such remarks, and the ids that they give, by names without case and accents."""
    return _MEANT.sub("", question), {fold(name): entity for name, entity in _MEANT.findall(question)}
