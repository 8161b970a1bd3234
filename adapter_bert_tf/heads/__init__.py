"""What stands on the encoder: one small layer for each kind of task."""
