"""Knowledge bases made of others."""

from typing import Any


class Over:
    """Another knowledge base, but for what is changed."""

    def __init__(self, base: Any, **changed: Any) -> None:
        self._base, self._changed = base, changed

    def __getattr__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else getattr(self._base, name)
