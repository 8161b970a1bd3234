"""A run: an output directory, and what fills it."""
