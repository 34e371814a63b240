"""How often each kind of work is killed: ``KBNAV_KILLS`` in all (60), at moments that ``KBNAV_SEED`` draws."""

import math
import os
from collections.abc import Mapping

SHARES: Mapping[str, float] = {
    "skb build": 0.2,
    "mirror build": 0.2,
    "ask": 0.15,
    "chat": 0.15,
    "eval run": 0.15,
    "serve": 0.1,
    "bot": 0.05,
}
# Read here, because what the environment says of kbnav is taken away before a test.
_KILLS = int(os.environ.get("KBNAV_KILLS", "60"))
_SEED = int(os.environ.get("KBNAV_SEED", "7"))
LONGEST = max(3_000, 60 * _KILLS)
"""Seconds after which a kind of work hangs, on a machine that does much else."""


def share(kind: str) -> int:
    """Kills of one kind."""
    return math.ceil(_KILLS * SHARES[kind])


def seed() -> int:
    """What the moments are drawn from; printed with each result, so that it can be run again."""
    return _SEED
