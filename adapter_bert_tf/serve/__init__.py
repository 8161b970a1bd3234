"""Many tasks on one base: what TF Serving loads."""
