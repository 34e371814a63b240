"""The hostile programs, each in the sandbox that ``make test`` does not try it in."""

from __future__ import annotations

import pytest

from kbnav.programs.sandbox import SANDBOXES
from tests.programs.attacks import ATTACKS
from tests.programs.test_attacks import canaries, check_attacks, hostile, limited

__all__ = ["canaries", "hostile", "limited"]


@pytest.mark.parametrize("group", ATTACKS)
def test_no_hostile_program_escapes_or_hangs_in_the_other_sandbox(group, hostile, limited, canaries):
    first = int(hostile.name == SANDBOXES[0])
    check_attacks(ATTACKS[group][first::2], hostile, limited, canaries)
