"""A worker: the same in Hugging Face `adapters`; its second argument is a vocabulary."""

import functools
import sys

import peer
import torch
import transformers
from pipe import serve
from sizes import ROWS, TEXT, Case, texts_of


def main() -> None:
    model = peer.make_model(Case.from_argument()).eval()
    tokenizer = transformers.BertTokenizerFast(vocab_file=sys.argv[2])

    def answer(rows: int) -> list:
        with torch.no_grad():
            inputs = tokenizer(texts_of(rows), return_tensors="pt", truncation=True, max_length=128)
            return model(**inputs).logits.softmax(-1).tolist()

    calls = {str(rows): functools.partial(answer, rows) for rows in ROWS}
    serve(calls, tokens=len(tokenizer(TEXT)["input_ids"]))


if __name__ == "__main__":
    main()
