"""Questions about texts in the form of SQuAD: reading, windows, decoding, scores."""
