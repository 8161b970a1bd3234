"""An epoch of CoLA on MiniLM: ours, ours padded to 128 tokens, and the peer's, which is so too.

Ours is a whole epoch, from the first step: with all tracing and compiling. Where all batches are
padded to one length they take the same time, so there a batch stands for all.
"""

from environments import our_worker, peer_worker
from report import Row
from sizes import MINILM

_PARTS = 6


def cola(data_dir: str) -> list[Row]:
    """The epoch as a share of both."""
    with (
        our_worker(MINILM, "cola_ours.py", data_dir, str(_PARTS)) as ours,
        peer_worker(MINILM) as peer,
    ):
        for worker, call in ((ours, "padded"), (peer, "step")):
            worker.seconds(call)  # Traces and allocates.
        parts, padded, theirs = [], [], []
        for _ in range(_PARTS):
            parts.append(ours.seconds("part"))
            padded.append(ours.seconds("padded"))
            theirs.append(peer.seconds("step"))
        batches = ours.facts["batches"]
    epoch = sum(parts)
    return [
        Row("epoch of CoLA, MiniLM: ours / ours padded to 128", 0.20, epoch, batches * min(padded)),
        Row("epoch of CoLA, MiniLM: ours / HF adapters padded", 0.20, epoch, batches * min(theirs)),
    ]
