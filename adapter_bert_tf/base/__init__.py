"""The frozen BERT: where it comes from, its vocabulary, its fingerprint."""
