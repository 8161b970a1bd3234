"""Training steps and forward passes: ours, the peer's, and ours without adapters."""

from environments import our_worker, peer_worker
from report import Row
from sizes import BERT_BASE, MINILM, Case
from timing import fastest

# A forward pass is half as long, and noise weighs more.
_ROUNDS = {"step": 5, "forward": 12}


def against_peer() -> list[Row]:
    """Adapter tuning against Hugging Face `adapters`: BERT-base and MiniLM."""
    base, base_forward = _ours_and_peer(BERT_BASE, ["step", "forward"])
    (minilm,) = _ours_and_peer(MINILM, ["step"])
    return [
        Row("adapter step, BERT-base 16 x 128: ours / HF adapters", 0.75, *base),
        Row("adapter step, MiniLM 32 x 128: ours / HF adapters", 0.75, *minilm),
        Row("forward, BERT-base 16 x 128: ours / HF", 0.90, *base_forward),
    ]


def _ours_and_peer(case: Case, calls: list[str]) -> list[tuple[float, float]]:
    with our_worker(case) as ours, peer_worker(case) as peer:
        if ours.facts != peer.facts:
            raise SystemExit(f"not the same work: {ours.facts} and {peer.facts}")
        return [_compare({"ours": ours, "peer": peer}, call) for call in calls]


def against_ourselves() -> list[Row]:
    """BERT-base with adapters against BERT-base without: full fine-tuning, the plain base."""
    with our_worker(BERT_BASE) as adapted, our_worker(BERT_BASE.but(adapter=0)) as plain:
        workers = {"adapted": adapted, "plain": plain}
        step = _compare(workers, "step")
        # Of tuning: before there is a graph for the forward pass as well.
        memory = adapted.peak_megabytes, plain.peak_megabytes
        forward = _compare(workers, "forward")
    return [
        Row("adapter step / full fine-tuning step, BERT-base", 0.70, *step),
        Row("adapted forward / plain base forward, BERT-base", 1.08, *forward),
        Row("peak memory, adapters / full fine-tuning, BERT-base", 0.60, *memory, unit="MB"),
    ]


def _compare(workers: dict, call: str) -> tuple[float, float]:
    calls = {name: (lambda worker=worker: worker.seconds(call)) for name, worker in workers.items()}
    first, second = fastest(calls, _ROUNDS[call]).values()
    return first, second
