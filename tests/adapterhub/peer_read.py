"""What PyTorch's `adapters` computes with an adapter's files.

Run by the peer's Python, never imported: `python peer_read.py BASE ADAPTER INPUTS.npz OUTPUT.npz`
loads a base and an adapter, with its head if it has one, and writes hidden, and logits or
start_logits and end_logits. Prints the head's labels as JSON, ordered by their ids, or null.

Other cases follow as more arguments, by fours: starting the peer takes longer than a case.
"""

import json
import logging
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import adapters
import numpy as np
import torch
import transformers


def load(base: str, folder: str) -> tuple[torch.nn.Module, str]:
    model = adapters.BertAdapterModel.from_pretrained(base)
    found: dict = {}
    # Without use_safetensors the library doesn't look for them.
    name = model.load_adapter(folder, use_safetensors=True, loading_info=found)
    # The library only logs what it misses in a file, and keeps random values instead.
    for problem in ("missing_keys", "unexpected_keys"):
        if found.get(problem):
            raise SystemExit(f"{folder}: {problem}: {', '.join(found[problem])}")
    model.set_active_adapters(name)
    return model.eval(), name


def compute(model: torch.nn.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    tensors = {name: torch.tensor(inputs[name], dtype=torch.long) for name in names}
    with torch.inference_mode():
        outputs = {"hidden": model.base_model(**tensors).last_hidden_state}
        made = model(**tensors)
    for name in ("logits", "start_logits", "end_logits"):
        if name in made:
            outputs[name] = made[name]
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def labels_of(model: torch.nn.Module, name: str) -> list[str] | None:
    """`get_labels` has the order of the file, where labels are sorted by their text."""
    labels = model.get_labels_dict(name) if name in model.heads else None
    return [labels[number] for number in sorted(labels)] if labels else None


def main() -> None:
    if len(sys.argv) < 5 or len(sys.argv) % 4 != 1:
        raise SystemExit(__doc__)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    logging.getLogger("adapters").setLevel(logging.ERROR)
    for first in range(1, len(sys.argv), 4):
        base, folder, inputs, output = sys.argv[first : first + 4]
        model, name = load(base, folder)
        np.savez(output, **compute(model, dict(np.load(inputs))))
        print(json.dumps(labels_of(model, name)), flush=True)


if __name__ == "__main__":
    main()
