"""What the walking agents of the papers share; no part of the core."""
