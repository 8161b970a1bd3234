import functools
import http.server
import json
import os
import shutil
import ssl
import subprocess
import tarfile
import threading
import urllib.request

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
import tf_keras
from official.legacy.bert import configs
from official.nlp.modeling import models, networks
from official.nlp.tools import export_tfhub_lib, tf2_bert_encoder_checkpoint_converter
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_hub import resolver

from adapter_bert_tf import AdapterConfig, UserError, load_encoder
from adapter_bert_tf.base.checkpoint import find_checkpoint, write_checkpoint
from adapter_bert_tf.base.hub import folder_digest
from adapter_bert_tf.base.load import find_base
from adapter_bert_tf.base.presets import HUB_PRESETS
from adapter_bert_tf.encoder.activations import gelu
from adapter_bert_tf.encoder.variables import variables_by_path
from adapter_bert_tf.text.tokenizer import read_vocabulary
from tests import tiny
from tests.torch_bytes import state_file


def _output(encoder):
    return encoder(tiny.inputs())["pooled_output"].numpy()


@pytest.fixture(scope="session")
def model_garden(bert, tmp_path_factory) -> str:
    """The tiny BERT as Model Garden's own converter makes it a TF2 checkpoint."""
    folder = tmp_path_factory.mktemp("model_garden")
    config = configs.BertConfig.from_json_file(f"{bert}/bert_config.json")
    # The converter imports TF1's `tf.train`, and means to run with eager execution on.
    tf2_bert_encoder_checkpoint_converter.convert_checkpoint(
        config, f"{folder}/bert_model.ckpt", f"{bert}/bert_model.ckpt", "encoder"
    )
    return str(folder)


@pytest.fixture(scope="session")
def hub_model(bert, model_garden, tmp_path_factory) -> str:
    """The tiny BERT as Model Garden's own tool exports it for TF-Hub."""
    folder = str(tmp_path_factory.mktemp("hub") / "model")
    export_tfhub_lib.export_model(
        folder,
        bert_config=configs.BertConfig.from_json_file(f"{bert}/bert_config.json"),
        model_checkpoint_path=f"{model_garden}/bert_model.ckpt-1",
        with_mlm=False,
        vocab_file=f"{bert}/vocab.txt",
        do_lower_case=False,
    )
    return folder


def _hugging_face_name(google: str) -> str:
    name = google.replace("/", ".").replace("layer_", "layer.")
    for old, new in (("kernel", "weight"), ("gamma", "weight"), ("beta", "bias")):
        name = name.removesuffix(old) + new if name.endswith(old) else name
    return f"{name}.weight" if name.endswith("_embeddings") else name


def _write_hugging_face(folder, rename=lambda name: name, extra=None, **changes) -> str:
    os.makedirs(folder, exist_ok=True)
    tensors = {
        rename(_hugging_face_name(name)): np.ascontiguousarray(
            array.T if name.endswith("kernel") else array
        )
        for name, array in tiny.google_tensors().items()
    }
    safetensors.numpy.save_file(tensors | (extra or {}), f"{folder}/model.safetensors")
    with open(f"{folder}/config.json", "w") as file:
        json.dump({**tiny.CONFIG, "hidden_act": "gelu_new", **changes}, file)
    return str(folder)


def test_all_formats_of_one_bert_give_the_same_encoder(bert, model_garden, hub_model, tmp_path):
    expected = load_encoder(bert, None)
    for other in (model_garden, hub_model, _write_hugging_face(tmp_path)):
        encoder = load_encoder(other, None)
        np.testing.assert_array_equal(_output(encoder), _output(expected))
        assert encoder.base.fingerprint == expected.base.fingerprint
        assert encoder.base.layer_norm_fingerprint == expected.base.layer_norm_fingerprint


def _larger_models(bert):
    """Model Garden's models around an encoder with the tiny BERT's weights."""
    plain = load_encoder(bert, None)
    sizes = {**plain.get_config(), "inner_activation": gelu}
    encoder = networks.BertEncoderV2(**sizes)
    encoder(tiny.inputs())
    for path, variable in variables_by_path(encoder).items():
        variable.assign(variables_by_path(plain)[path])
    pretrainer = models.BertPretrainerV2(encoder)
    pretrainer({**tiny.inputs(), "masked_lm_positions": np.zeros([4, 2], np.int32)})
    classifier = models.BertClassifier(encoder, num_classes=2)
    return {
        "pretrainer": tf.train.Checkpoint(model=pretrainer),
        "items": tf.train.Checkpoint(**pretrainer.checkpoint_items),
        "classifier": tf.train.Checkpoint(model=classifier),
        "trainer": tf.train.Checkpoint(
            model=pretrainer, global_step=tf.Variable(3), optimizer=tf_keras.optimizers.Adam()
        ),
    }


def test_an_encoder_inside_of_a_larger_model_is_found(bert, tmp_path):
    expected = _output(load_encoder(bert, None))
    for name, checkpoint in _larger_models(bert).items():
        prefix = checkpoint.save(str(tmp_path / name / "ckpt"))
        np.testing.assert_array_equal(_output(load_encoder(prefix, None)), expected, err_msg=name)


def test_a_checkpoint_of_something_else_is_told(tmp_path):
    prefix = tf.train.Checkpoint(step=tf.Variable(1)).save(str(tmp_path / "ckpt"))
    with pytest.raises(UserError, match="holds no BERT encoder"):
        load_encoder(prefix)


def test_a_checkpoint_prefix_and_model_garden_with_a_config(bert, model_garden):
    expected = _output(load_encoder(bert, None))
    np.testing.assert_array_equal(_output(load_encoder(f"{bert}/bert_model.ckpt", None)), expected)
    encoder = load_encoder(model_garden, None, config_file=f"{bert}/bert_config.json")
    np.testing.assert_array_equal(_output(encoder), expected)


def test_hub_model_brings_vocabulary_and_lower_case(bert, hub_model):
    vocabulary = load_encoder(hub_model, None).base.vocabulary
    assert vocabulary.tokens == load_encoder(bert, None).base.vocabulary.tokens
    assert vocabulary.lower_case is False
    assert load_encoder(bert, None).base.vocabulary.lower_case is True


def test_hub_handle_is_downloaded(bert, hub_model, tmp_path, monkeypatch):
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(hub_model, arcname=".")
    monkeypatch.setenv("TFHUB_CACHE_DIR", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 1 "
        "-subj /CN=localhost -addext subjectAltName=DNS:localhost",
        shell=True,
        check=True,
        capture_output=True,
    )
    trusts = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(
        resolver.HttpResolverBase,
        "_call_urlopen",
        lambda self, request: urllib.request.urlopen(request, context=trusts),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        handle = f"https://localhost:{server.server_port}/model.tar.gz"
        # A preset is a name for such a handle.
        monkeypatch.setitem(HUB_PRESETS, "bert-tiny", handle)
        encoder = load_encoder("bert-tiny", None)
        assert encoder.base.origin == "bert-tiny"
        assert encoder.base.fetched == {handle: folder_digest(hub_model)}
        with pytest.raises(UserError, match="http://.*expected https"):
            load_encoder(handle.replace("https", "http"))
        with pytest.raises(UserError, match="missing.tar.gz"):
            load_encoder(handle.replace("model.tar.gz", "missing.tar.gz"))
        server.shutdown()
    np.testing.assert_array_equal(_output(encoder), _output(load_encoder(bert, None)))


def _old_norm_names(name: str) -> str:
    if "LayerNorm" not in name:
        return name
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
        "LayerNorm.bias", "LayerNorm.beta"
    )


@pytest.mark.parametrize("rename", [lambda name: name.removeprefix("bert."), _old_norm_names])
def test_hugging_face_names_new_and_old(bert, tmp_path, rename):
    extra = {
        "cls.predictions.bias": np.zeros([3], np.float32),
        "bert.embeddings.position_ids": np.zeros([1, 3], np.int64),
    }
    encoder = load_encoder(_write_hugging_face(tmp_path, rename, extra), None)
    np.testing.assert_array_equal(_output(encoder), _output(load_encoder(bert, None)))


def test_hugging_face_activation_epsilon_and_lower_case(bert, tmp_path):
    folder = _write_hugging_face(tmp_path, hidden_act="gelu", layer_norm_eps=1e-3)
    shutil.copy(f"{bert}/vocab.txt", folder)
    with open(f"{folder}/tokenizer_config.json", "w") as file:
        json.dump({"do_lower_case": False}, file)
    base = load_encoder(folder, None).base
    assert base.config.inner_activation == "gelu_erf"
    assert base.config.norm_epsilon == 1e-3
    assert base.vocabulary.lower_case is False
    assert base.fingerprint != load_encoder(bert, None).base.fingerprint


def test_half_precision_weights_are_read(bert, tmp_path):
    folder = _write_hugging_face(tmp_path)
    path = f"{folder}/model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file({n: a.astype(np.float16) for n, a in tensors.items()}, path)
    difference = _output(load_encoder(folder, None)) - _output(load_encoder(bert, None))
    assert 0 < np.abs(difference).max() < 0.02


def test_cased_vocabulary_is_known_by_its_capitals(tmp_path):
    folder = tiny.write_google_bert(tmp_path)
    with open(f"{folder}/vocab.txt") as file:
        text = file.read()
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write(text.replace("w7\n", "Paris\n"))
    assert load_encoder(folder, None).base.vocabulary.lower_case is False
    assert load_encoder(folder, None, lower_case=True).base.vocabulary.lower_case is True


def test_a_few_odd_tokens_make_no_cased_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    words = [f"w{i}" for i in range(1000)]
    path.write_text("\n".join(["[PAD]", "[UNK]", "<S>", "<T>", "O", *words]) + "\n\n")
    vocabulary = read_vocabulary(str(path))
    assert vocabulary.lower_case is True
    assert len(vocabulary.tokens) == 1005
    path.write_bytes(b"\xef\xbb\xbf[PAD]\r\nParis\r\n")
    assert read_vocabulary(str(path)).tokens == ("[PAD]", "Paris")


def test_hugging_face_tables_may_have_more_rows_than_tokens(bert, tmp_path):
    folder = _write_hugging_face(tmp_path)
    tokens = open(f"{bert}/vocab.txt").read().split()
    with open(f"{folder}/vocab.txt", "w") as file:
        file.write("\n".join(tokens[:-2]))
    assert len(load_encoder(folder, None).base.vocabulary.tokens) == tiny.WORDS - 2
    with pytest.raises(UserError, match="48 tokens"):
        load_encoder(bert, None, vocab_file=f"{folder}/vocab.txt")


def test_a_cut_hub_model_is_told(hub_model, tmp_path):
    shutil.copytree(hub_model, tmp_path / "cut")
    _cut(tmp_path / "cut" / "variables" / "variables.data-00000-of-00001")
    with pytest.raises(UserError, match="can't read"):
        load_encoder(tmp_path / "cut")
    (tmp_path / "cut" / "saved_model.pb").write_bytes(b"no graph")
    with pytest.raises(UserError, match="saved_model.pb: not a SavedModel"):
        load_encoder(tmp_path / "cut")


def test_the_graph_of_a_saved_model_never_runs(bert, hub_model, tmp_path, monkeypatch):
    def run(*_, **__):
        raise AssertionError("the graph was loaded")

    monkeypatch.setattr(tf.saved_model, "load", run)
    monkeypatch.setattr(tf.compat.v1.saved_model, "load", run)
    np.testing.assert_array_equal(
        _output(load_encoder(hub_model, None)), _output(load_encoder(bert, None))
    )
    # What a graph would do to files when it is loaded, if it were: its initializer is not read.
    shutil.copytree(hub_model, tmp_path / "other")
    path = tmp_path / "other" / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].graph_def.Clear()
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(
        _output(load_encoder(tmp_path / "other", None)), _output(load_encoder(bert, None))
    )


def test_a_saved_model_of_something_else_is_told(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "empty"))
    with pytest.raises(UserError, match="holds no variables of a BERT"):
        load_encoder(tmp_path / "empty")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    folder = tiny.write_google_bert(tmp_path)
    tensors = tiny.google_tensors()
    tensors["bert/pooler/dense/bias"][3] = value
    write_checkpoint(f"{folder}/bert_model.ckpt", tensors)
    with pytest.raises(UserError, match="not finite: pooler_transform/bias"):
        load_encoder(folder)


def test_a_configuration_without_a_checkpoint_is_told(bert, hub_model):
    with pytest.raises(UserError, match="only a checkpoint takes a configuration"):
        load_encoder(hub_model, None, config_file=f"{bert}/bert_config.json")


def test_a_base_has_no_fingerprint_before_it_is_read(bert):
    with pytest.raises(ValueError, match="load_encoder"):
        find_base(bert).fingerprint  # noqa: B018


def test_optimizer_slots_and_pretraining_heads_are_passed_over(bert, tmp_path):
    folder = tiny.write_google_bert(tmp_path)
    tensors = tiny.google_tensors()
    more = {f"{name}/adam_{slot}": array for name, array in tensors.items() for slot in "mv"}
    more |= {"cls/predictions/output_bias": np.zeros([3]), "global_step": np.int64(7)}
    write_checkpoint(f"{folder}/bert_model.ckpt", tensors | more)
    np.testing.assert_array_equal(
        _output(load_encoder(folder, None)), _output(load_encoder(bert, None))
    )


def _without(folder, name):
    tensors = tiny.google_tensors()
    del tensors[name]
    write_checkpoint(f"{folder}/bert_model.ckpt", tensors)


def _with(folder, name):
    tensors = {**tiny.google_tensors(), name: np.zeros([2], np.float32)}
    write_checkpoint(f"{folder}/bert_model.ckpt", tensors)


def _cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda f: _without(f, "bert/pooler/dense/bias"), "missing: pooler_transform/bias"),
        (lambda f: _with(f, "bert/encoder/extra"), "left over: bert/encoder/extra"),
        (lambda f: tiny.write_config(f, hidden_size=32), "another shape: .*instead of"),
        (lambda f: tiny.write_config(f, num_hidden_layers=2), "left over: .*layer_2"),
        (lambda f: tiny.write_config(f, num_hidden_layers=4), "missing: .*layer_3"),
        (
            lambda f: tiny.write_config(f, hidden_act="step"),
            "hidden_act: .* not 'step'",
        ),
        (lambda f: tiny.write_config(f, hidden_act=["gelu"]), "hidden_act"),
        (lambda f: tiny.write_config(f, hidden_dropout_prob=2.0), "hidden_dropout_prob"),
        (lambda f: tiny.write_config(f, layer_norm_eps=None), "layer_norm_eps"),
        (lambda f: tiny.write_config(f, vocab_size="many"), "vocab_size"),
        (lambda f: tiny.write_config(f, num_attention_heads=5), "multiple"),
        (lambda f: open(f"{f}/bert_config.json", "w").write("{"), "bert_config.json: not JSON"),
        (lambda f: open(f"{f}/bert_config.json", "w").write("[]"), "expected a JSON object"),
        (lambda f: open(f"{f}/vocab.txt", "a").write("one more\n"), "51 tokens.* says 50"),
        (lambda f: open(f"{f}/vocab.txt", "wb").write(b"\xff\n"), "not UTF-8"),
        (lambda f: os.unlink(f"{f}/bert_config.json"), "expected bert_config.json beside it"),
        (lambda f: _cut(f"{f}/bert_model.ckpt.data-00000-of-00001"), "can't read"),
        (lambda f: _cut(f"{f}/bert_model.ckpt.index"), "not a readable TF checkpoint"),
    ],
)
def test_what_does_not_fit_is_told_in_one_line(tmp_path, spoil, told):
    folder = tiny.write_google_bert(tmp_path)
    spoil(folder)
    with pytest.raises(UserError, match=told) as error:
        load_encoder(folder, None)
    assert "\n" not in str(error.value)
    assert folder in str(error.value)


@pytest.mark.parametrize(
    ("bert", "told"),
    [
        ("bert-base-uncasd", "did you mean bert-base-uncased"),
        ("/nowhere", "no such folder"),
    ],
)
def test_unknown_names_are_told(bert, told):
    with pytest.raises(UserError, match=told):
        load_encoder(bert)


def test_folders_without_a_bert_are_told(tmp_path):
    told = r"holds no BERT: expected saved_model.pb or bert_model.ckpt.\* or config.json"
    with pytest.raises(UserError, match=told):
        load_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"expected model.safetensors or pytorch_model.bin"):
        load_encoder(tmp_path)
    _write_hugging_face(tmp_path)
    _cut(tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="not a readable safetensors file"):
        load_encoder(tmp_path)


def test_pickled_weights_are_read_as_tensors_only(tmp_path):
    _write_hugging_face(tmp_path)
    expected = load_encoder(tmp_path, None).get_weights()
    stored = safetensors.numpy.load_file(tmp_path / "model.safetensors")
    os.unlink(tmp_path / "model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(state_file(stored))
    for ours, theirs in zip(load_encoder(tmp_path, None).get_weights(), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_several_checkpoints_need_a_choice(tmp_path):
    folder = tiny.write_google_bert(tmp_path)
    for name in ("a.ckpt", "b.ckpt"):
        write_checkpoint(f"{folder}/{name}", tiny.google_tensors())
    assert load_encoder(folder, None).base.origin == f"{folder}/bert_model.ckpt"
    os.unlink(f"{folder}/bert_model.ckpt.index")
    with pytest.raises(UserError, match=r"several checkpoints \(a.ckpt, b.ckpt\)"):
        load_encoder(folder)


def test_default_is_the_originals_adapter(bert):
    assert load_encoder(bert).adapter == AdapterConfig(size=64, init_scale=1e-3)


def test_of_several_checkpoints_the_latest_is_taken(tmp_path):
    folder = tiny.write_google_bert(tmp_path)
    for name in ("a.ckpt", "b.ckpt"):
        write_checkpoint(f"{folder}/{name}", tiny.google_tensors())
    os.unlink(f"{folder}/bert_model.ckpt.index")
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "b.ckpt"\nall_model_checkpoint_paths: "a.ckpt"\n'
    )
    assert find_checkpoint(folder) == f"{folder}/b.ckpt"
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "elsewhere"\n')
    with pytest.raises(UserError, match="several checkpoints"):
        find_checkpoint(folder)


@pytest.mark.parametrize(
    ("values", "told"),
    [(np.int64(1), "are no floats: pooler_transform/kernel"), (b"x", "are no floats: pooler")],
)
def test_weights_that_are_no_floats_are_told(tmp_path, values, told):
    folder, tensors = tiny.write_google_bert(tmp_path), tiny.google_tensors()
    kernel = tensors["bert/pooler/dense/kernel"]
    tensors["bert/pooler/dense/kernel"] = np.full(kernel.shape, values)
    write_checkpoint(f"{folder}/bert_model.ckpt", tensors)
    with pytest.raises(UserError, match=told):
        load_encoder(folder)
