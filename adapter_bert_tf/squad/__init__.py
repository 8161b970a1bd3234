"""Questions about texts, as SQuAD asks them."""
