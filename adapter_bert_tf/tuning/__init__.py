"""Training: what is trained, and how."""
