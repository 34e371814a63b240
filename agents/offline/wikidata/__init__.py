"""The policy for knowledge bases with Wikidata's model."""
