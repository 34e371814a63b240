"""A run: its trajectory, how it is saved and kept while it goes on, and the databases that hold such things."""
