"""A query in plain words, by rule from its structure."""
