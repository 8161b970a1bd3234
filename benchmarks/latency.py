"""One text through an export, against Hugging Face `adapters`."""

from environments import our_worker, peer_worker
from report import Row
from sizes import BERT_BASE
from timing import fastest

from adapter_bert_tf.base.presets import find_minilm

_ROUNDS = 40


def latency() -> list[Row]:
    """A text of 32 tokens, from string to probabilities."""
    # The vocabulary of MiniLM is that of BERT-base.
    vocabulary = f"{find_minilm()}/vocab.txt"
    with (
        our_worker(BERT_BASE, "latency_ours.py", vocabulary) as ours,
        peer_worker(BERT_BASE, "latency_peer.py", vocabulary) as peer,
    ):
        calls = {
            "ours": lambda: ours.seconds("text"),
            "peer": lambda: peer.seconds("text"),
        }
        if ours.facts["tokens"] != peer.facts["tokens"]:
            raise SystemExit(f"not the same tokens: {ours.facts} and {peer.facts}")
        times = fastest(calls, _ROUNDS)
    name = "batch-1 latency of the export, 32 tokens: ours / HF adapters eager"
    return [Row(name, 0.80, times["ours"], times["peer"])]
