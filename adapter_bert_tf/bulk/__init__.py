"""Predictions for whole files: rows in, the same rows with predictions out."""
