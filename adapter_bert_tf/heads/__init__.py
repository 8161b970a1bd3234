"""What stands on the encoder: a file for each kind of task, with all that belongs to the kind."""
