"""The texts of an SKB that is being built, and those who render and encode them on other processors than this one's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kbnav.knowledge.skb.local import LocalStore
from kbnav.knowledge.skb.rendering import indexed_texts
from kbnav.knowledge.skb.schema import Meta, NodeText
from kbnav.knowledge.skb.store import SKB

if TYPE_CHECKING:
    from kbnav.encoders import Encoder
    from kbnav.knowledge.skb.embedding import Made, Window


@dataclass(frozen=True)
class Texts:
    """What the indexes are built from, told so shortly that it can be sent to whoever renders it."""

    folder: Path
    meta: Meta
    """Of what is built so far: nodes, documents and graph."""
    relations: bool
    """Whether documents have their relations at their end."""

    def opened(self) -> SKB:
        """What is built so far, as if it were finished. Raises OSError where the folder is not to be seen."""
        return SKB(LocalStore(self.folder, self.meta))

    def rendered(self) -> Iterator[NodeText]:
        """Every node in number order."""
        with self.opened() as skb:
            yield from indexed_texts(skb, relations=self.relations)


class Workers(Protocol):
    """Who renders and encodes; the files are written by the process that builds."""

    def rendered(self, texts: Texts) -> Iterator[NodeText]:
        """As ``Texts.rendered``."""
        ...

    def encoded(
        self, texts: Texts, encoder: Encoder, folder: Path, windows: Iterable[Window], previous: Path | None
    ) -> Iterator[Made]:
        """As ``embedding.encode`` gives for each window, in any order.

        ``folder`` has what the encoder was fitted to, ``previous`` vectors that may be used again.
        """
        ...
