"""The policy for SPARQL endpoints of any vocabulary."""
