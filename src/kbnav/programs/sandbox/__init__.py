"""Where programs run: in another process, with nothing but their query, candidates and the API's answers."""

from kbnav.programs.sandbox.base import Sandbox, SandboxLimits
from kbnav.programs.sandbox.open import SANDBOXES, open_sandbox

__all__ = ["SANDBOXES", "Sandbox", "SandboxLimits", "open_sandbox"]
