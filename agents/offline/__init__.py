"""Policies with no language model, one for Wikidata's model and one for SKBs: baselines that act as a model does."""
