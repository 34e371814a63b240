"""The phrases that queries are told in, by language; what stands in braces is put in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Phrases:
    """One language.

    ``property`` is how a property, what has it and its value are put together; ``verb`` the same where the property's
    label is not a noun, as ``verbal`` tells. ``functions`` has each function of SPARQL's and ``names`` what Wikibase
    and common vocabularies call things, both by their names in queries.
    """

    # what the query gives
    lists: str
    lists_each_once: str
    counts: str
    counts_different: str
    counts_rows: str
    gives: str
    for_each: str
    called: str
    asks: str
    describes: str
    builds: str
    where: str
    everything: str
    # conditions
    property: str
    property_of: str
    verb: str
    verb_of: str
    verbal: str
    instance: str
    instance_below: str
    backward: str
    any_steps: str
    some_steps: str
    maybe: str
    any_property: str
    other_property: str
    leads: str
    or_below: str
    or_reached: str
    no_value: str
    one_of: str
    means: str
    optional: str
    minus: str
    union: str
    either: str
    exists: str
    not_exists: str
    service: str
    graph: str
    subquery: str
    prepared: str
    uses_prepared: str
    statement_of: str
    statement: str
    qualifier_of: str
    reference_of: str
    something: str
    and_more: str
    or_: str
    # what comes last
    having: str
    sorted: str
    descending: str
    first: str
    skipped: str
    # remarks
    with_subclasses: str
    without_subclasses: str
    any_rank: str
    only_current: str
    repeats: str
    # expressions
    operators: Mapping[str, str]
    functions: Mapping[str, str]
    call: str
    different: str
    rows: str
    names: Mapping[str, str]

    def is_verbal(self, label: str) -> bool:
        """Whether a property's label is no noun: "located in", "has part"."""
        return re.search(self.verbal, label, re.IGNORECASE) is not None


def fixed(names: Mapping[str, str]) -> Mapping[str, str]:
    """A mapping that nobody changes."""
    return MappingProxyType(dict(names))
