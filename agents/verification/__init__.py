"""Checks of an answer before it is given: by rule, by a model, by agreement of several."""
