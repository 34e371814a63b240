"""kbnav: ask questions of knowledge bases, with a language model that navigates them as an expert would.

The names in ``__all__`` are the library, stable from one minor version to the next (docs/python.md). Each is imported
when it is first used, so ``import kbnav`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbnav.errors import KbnavError as KbnavError
    from kbnav.library.asking import KB as KB
    from kbnav.library.asking import Answer as Answer
    from kbnav.library.asking import Event as Event
    from kbnav.library.asking import aask as aask
    from kbnav.library.asking import aretrieve as aretrieve
    from kbnav.library.asking import ask as ask
    from kbnav.library.asking import astream as astream
    from kbnav.library.asking import open as open
    from kbnav.library.asking import retrieve as retrieve
    from kbnav.library.asking import stream as stream
    from kbnav.library.langchain import graph as graph
    from kbnav.library.langchain import langchain_tools as langchain_tools
    from kbnav.settings.model import Settings as Settings

__version__ = "0.1.0"
__all__ = [
    "KB",
    "Answer",
    "Event",
    "KbnavError",
    "Settings",
    "aask",
    "aretrieve",
    "ask",
    "astream",
    "graph",
    "langchain_tools",
    "open",
    "retrieve",
    "stream",
]

_WHERE = {
    **dict.fromkeys(__all__, "kbnav.library.asking"),
    **dict.fromkeys(("graph", "langchain_tools"), "kbnav.library.langchain"),
    "KbnavError": "kbnav.errors",
    "Settings": "kbnav.settings.model",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'kbnav' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
