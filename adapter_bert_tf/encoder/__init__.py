"""BERT with bottleneck adapters, on Model Garden's encoder."""
