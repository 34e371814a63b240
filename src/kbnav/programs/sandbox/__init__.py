"""Where programs run: in another process, with nothing but their query, candidates and the API's answers."""

from kbnav.programs.sandbox.base import SANDBOXES, Sandbox, SandboxLimits, open_sandbox

__all__ = ["SANDBOXES", "Sandbox", "SandboxLimits", "open_sandbox"]
