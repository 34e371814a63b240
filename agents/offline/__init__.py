"""Policies of rules, for use without a language model: for Wikibases, SPARQL endpoints, SKBs and several of them."""
