"""The baseline without BERT: small models on embeddings, and the search for the best one."""
