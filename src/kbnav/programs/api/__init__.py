"""What a program may call. Everything here runs in this process; only plain data crosses to a program and back."""

from kbnav.programs.api.api import API_VERSION, Api, ApiLimits, Calls
from kbnav.programs.api.functions import OutOfCalls

__all__ = ["API_VERSION", "Api", "ApiLimits", "Calls", "OutOfCalls"]
