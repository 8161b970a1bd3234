"""Turns text into token ids, inside the TensorFlow graph."""
