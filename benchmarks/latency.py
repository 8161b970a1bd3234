"""Short texts through an export, against Hugging Face `adapters` and ONNX Runtime."""

from environments import our_worker, peer_worker
from report import Row
from sizes import BERT_BASE
from timing import fastest

from adapter_bert_tf.base.presets import find_minilm

_ROUNDS = 40


def latency() -> list[Row]:
    """One text and eight, 32 tokens each, from string to probabilities."""
    # The vocabulary of MiniLM is that of BERT-base.
    vocabulary = f"{find_minilm()}/vocab.txt"
    with (
        our_worker(BERT_BASE, "latency_ours.py", vocabulary) as ours,
        peer_worker(BERT_BASE, "latency_peer.py", vocabulary) as adapters,
        peer_worker(BERT_BASE, "latency_onnx.py", vocabulary) as onnx,
    ):
        workers = {"ours": ours, "adapters": adapters, "onnx": onnx}
        if len({worker.facts["tokens"] for worker in workers.values()}) > 1:
            raise SystemExit(f"not the same tokens: {[w.facts for w in workers.values()]}")

        def measure(rows: str) -> dict[str, float]:
            calls = {name: lambda w=worker: w.seconds(rows) for name, worker in workers.items()}
            return fastest(calls, _ROUNDS)

        one, eight = measure("1"), measure("8")
    return [
        Row(
            "latency of the export, 1 x 32 tokens: ours / HF adapters eager",
            0.80,
            one["ours"],
            one["adapters"],
        ),
        Row(
            "latency of the export, 1 x 32 tokens: ours / ONNX Runtime",
            0.95,
            one["ours"],
            one["onnx"],
        ),
        Row(
            "latency of the export, 8 x 32 tokens: ours / ONNX Runtime",
            0.95,
            eight["ours"],
            eight["onnx"],
        ),
    ]
