"""A policy with no language model: a baseline that acts through the same graph and tools as a model does."""
