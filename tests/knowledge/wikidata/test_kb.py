"""The knowledge base's calls on the bundled mirror, which says the same over HTTP (``mirror/test_local.py``)."""

import pytest

from kbnav.errors import UnknownId


def test_unknown_ids_are_told_to_the_model(mini_kb):
    for call in (mini_kb.get_entry, mini_kb.search_neighbors):
        with pytest.raises(UnknownId, match=r"no page for Q999999999: .* not in this copy"):
            call("Q999999999")
        with pytest.raises(UnknownId, match="such as Q42"):
            call("Marie Curie")
    for call in (mini_kb.get_property_examples, lambda one: mini_kb.search_neighbors("Q7186", relation=one)):
        with pytest.raises(UnknownId, match="'owned by' is not a property id such as P127: search for the name"):
            call("owned by")
