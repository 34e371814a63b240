"""What a model is told of an SKB: which documents there are and of which fields, and the documents themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from kbnav.knowledge.skb.nodes import is_empty
from kbnav.knowledge.skb.rendering import field_names, get_doc_info, indexed_text
from kbnav.knowledge.skb.store import SKB

Structures = Mapping[str, Sequence[str]]
"""The fields that documents of each node type have (KAR, Table 9)."""

_SAMPLED = 64
"""Documents of a type that are looked at."""


def structures(skb: SKB) -> Structures:
    """Node types with their fields, in the order in which documents have them.

    Read off documents spread evenly over each type, because fields are no part of an SKB's schema: one that hardly any
    document has may be missing. Of STaRK's SKBs they are the fields that STaRK renders, as it calls them; of others
    those of the documents, but for those whose name begins with ``_``, which are a source's own numbers.
    """
    found: dict[str, Sequence[str]] = {}
    for number, kind in enumerate(skb.type_names):
        first, end = skb.nodes.type_start[number : number + 2]
        places = np.unique(np.linspace(first, end - 1, min(_SAMPLED, end - first)).astype(int)).tolist()
        found[kind] = tuple(dict.fromkeys(field for node in places for field in _fields(skb, node)))
    return MappingProxyType(found)


def _fields(skb: SKB, node: int) -> Sequence[str]:
    if skb.meta.style != "plain":
        return field_names(skb, node)
    keys = [key for key, value in skb.documents[node].items() if not key.startswith("_") and not is_empty(value)]
    return ["name", *(key.replace("_", " ") for key in keys)]


def shown(skb: SKB, node: int) -> str:
    """A node's document for a prompt, without relations, in one line."""
    return get_doc_info(skb, node, add_rel=False, compact=True)


def searched(skb: SKB, node: int) -> str:
    """A node's document as the indexes have it."""
    return indexed_text(skb, node)
