"""Finds and reads the frozen BERT, with its vocabulary and its fingerprint."""
