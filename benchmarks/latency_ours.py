"""A worker: an export that takes text; its second argument is a vocabulary."""

import sys
import tempfile

import ours
import tensorflow as tf
from pipe import serve
from sizes import ROWS, Case, texts_of

from adapter_bert_tf import AdapterConfig, ClassificationHead, TaskModel, save_pack
from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.config import BertConfig
from adapter_bert_tf.base.load import make_encoder
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.serve.export import export_packs
from adapter_bert_tf.text.inputs import IDS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary, read_vocabulary


def _random_base(case: Case, vocabulary: Vocabulary) -> Base:
    encoder = ours.make_model(case.but(adapter=0)).encoder
    values = {path: variable.numpy() for path, variable in variables_by_path(encoder).items()}
    config = BertConfig(
        vocab_size=case.words,
        hidden_size=case.width,
        num_layers=case.layers,
        num_attention_heads=case.heads,
        inner_dim=4 * case.width,
        max_sequence_length=512,
        type_vocab_size=2,
    )
    return Base("random", config, vocabulary, lambda: iter(values.items()))


def main() -> None:
    case = Case.from_argument()
    base = _random_base(case, read_vocabulary(sys.argv[2]))
    encoder = make_encoder(base, AdapterConfig(size=case.adapter))
    with tempfile.TemporaryDirectory() as folder:
        save_pack(TaskModel(encoder, ClassificationHead(2)), f"{folder}/pack")
        version = export_packs(base, [f"{folder}/pack"], f"{folder}/model")
        answer = tf.saved_model.load(version).signatures["serving_default"]
    texts = {rows: tf.constant(texts_of(rows)) for rows in ROWS}
    tokens = encode(Tokenizer(base.vocabulary), texts[1], None, 128)[IDS].row_lengths()
    calls = {
        str(rows): lambda text=text: answer(text=text)["probabilities"].numpy()
        for rows, text in texts.items()
    }
    serve(calls, tokens=int(tokens[0]))


if __name__ == "__main__":
    main()
