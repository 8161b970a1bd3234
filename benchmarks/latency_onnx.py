"""A worker: the same in ONNX Runtime; its second argument is a vocabulary."""

import functools
import sys
import tempfile

import numpy as np
import onnx_model
import peer
import transformers
from pipe import serve
from sizes import ROWS, TEXT, Case, texts_of


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        onnx_model.export(peer.make_model(Case.from_argument()), f"{folder}/model.onnx")
        session = onnx_model.load(f"{folder}/model.onnx")
    tokenizer = transformers.BertTokenizerFast(vocab_file=sys.argv[2])

    def answer(rows: int) -> np.ndarray:
        inputs = tokenizer(texts_of(rows), return_tensors="np", truncation=True, max_length=128)
        return onnx_model.run(session, inputs)

    calls = {str(rows): functools.partial(answer, rows) for rows in ROWS}
    serve(calls, tokens=len(tokenizer(TEXT)["input_ids"]))


if __name__ == "__main__":
    main()
