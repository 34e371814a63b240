"""Questions made from an SKB: a relation path and a phrase of the answer's text, both needed (STaRK, section 2.4)."""
