"""From text to token ids, in the graph."""
