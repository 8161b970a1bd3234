"""A worker: a faithful tokenizer in Python. Arguments: a `Case`, vocabulary, texts, every nth."""

import sys

import transformers
from pipe import serve


def main() -> None:
    vocabulary, path, every = sys.argv[2], sys.argv[3], int(sys.argv[4])
    tokenizer = transformers.BertTokenizer(vocab_file=vocabulary)
    with open(path, encoding="utf-8") as file:
        texts = [line.split("\t")[0] for line in file.readlines()[1::every]]

    def tokenise() -> list:
        return [tokenizer(text, truncation=True, max_length=128) for text in texts]

    serve({"tokenise": tokenise})


if __name__ == "__main__":
    main()
