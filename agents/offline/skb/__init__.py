"""The policy for SKBs."""
