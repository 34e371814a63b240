"""Where programs run: in another process, with nothing but their query, candidates and the API's answers."""

from __future__ import annotations

from kbnav.errors import UsageError
from kbnav.programs.sandbox.base import Sandbox, SandboxLimits
from kbnav.settings.plugins import did_you_mean

__all__ = ["SANDBOXES", "Sandbox", "SandboxLimits", "open_sandbox"]
SANDBOXES = ("monty", "bubblewrap")


def open_sandbox(name: str = "monty", limits: SandboxLimits | None = None) -> Sandbox:
    """A sandbox by its name, to be used in a ``with`` statement. Raises UsageError where it cannot be had here."""
    if name == "monty":
        from kbnav.programs.sandbox.monty import MontySandbox

        return MontySandbox(limits)
    if name == "bubblewrap":
        from kbnav.programs.sandbox.bubblewrap import BubblewrapSandbox

        return BubblewrapSandbox(limits)
    raise UsageError(f"no sandbox {name!r}; there are {', '.join(SANDBOXES)}{did_you_mean(name, SANDBOXES)}")
