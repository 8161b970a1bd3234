"""A worker: our model as a SavedModel that takes text; its second argument is a vocabulary."""

import sys
import tempfile

import ours
import tensorflow as tf
from pipe import serve
from sizes import TEXT, Case

from adapter_bert_tf import TaskModel
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer
from adapter_bert_tf.text.vocabulary import read_vocabulary


class _Export(tf.Module):
    """Texts to probabilities."""

    def __init__(self, model: TaskModel, tokenizer: Tokenizer):
        super().__init__()
        self.model, self.tokenizer = model, tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def probabilities(self, texts: tf.Tensor) -> tf.Tensor:
        rows = encode(self.tokenizer, texts, None, 128)
        names = {"input_word_ids": IDS, "input_mask": MASK, "input_type_ids": SEGMENTS}
        inputs = {name: rows[column].to_tensor() for name, column in names.items()}
        return tf.nn.softmax(self.model(inputs, training=False))


def main() -> None:
    tokenizer = Tokenizer(read_vocabulary(sys.argv[2]))
    text = tf.constant([TEXT])
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(_Export(ours.make_model(Case.from_argument()), tokenizer), folder)
        loaded = tf.saved_model.load(folder)
    tokens = int(encode(tokenizer, text, None, 128)[IDS].row_lengths()[0])
    serve({"text": lambda: loaded.probabilities(text).numpy()}, tokens=tokens)


if __name__ == "__main__":
    main()
