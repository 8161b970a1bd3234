"""Tokenised examples as TFRecords, unpadded, with the feature names of the original."""

import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras

from adapter_bert_tf.data.examples import Examples
from adapter_bert_tf.data.labels import MOST_CLASSES
from adapter_bert_tf.errors import UserError, file_error, first_line
from adapter_bert_tf.files import (
    MOST_OF_DESCRIPTION,
    exists,
    file_size,
    make_folders,
    new_file,
    open_bytes,
    refuse_special,
)
from adapter_bert_tf.text.inputs import IDS, MASK, SEGMENTS, encode
from adapter_bert_tf.text.tokenizer import Tokenizer

LABELS = "labels"

# What we call a column -> what the original's files call it.
_NAMES_IN_FILES = {
    IDS: "input_ids",
    MASK: "input_mask",
    SEGMENTS: "segment_ids",
    LABELS: "label_ids",
}

_FORMAT = 1
# A record is its length in 8 bytes and a checksum of that in 4, its content, and 4 more.
_LENGTH, _OVERHEAD = 8, 16
ROWS_AT_ONCE = 1024


def cached_records(
    examples: Examples, tokenizer: Tokenizer, max_seq_length: int, cache_dir: str, title: str
) -> str:
    """Returns the TFRecord file of these examples; it is written if it isn't there yet.

    Its name is a digest of all that determines its content, so a file that exists is right.
    """
    key = (max_seq_length, examples.texts, examples.pairs, examples.labels)
    path = cache_path(cache_dir, tokenizer, key)
    if not exists(path):
        write_records(path, examples, tokenizer, max_seq_length, title)
    return path


def cache_path(cache_dir: str, tokenizer: Tokenizer, parts: Iterable[object]) -> str:
    """The file whose name is a digest of `parts`, of the tokenizer and of the format."""
    digest = hashlib.sha256()
    for part in ([_FORMAT, tokenizer.vocabulary.describe()], *parts):
        digest.update(json.dumps(part).encode())
    return os.path.join(cache_dir, f"{digest.hexdigest()[:32]}.tfrecord")


def write_records(
    path: str, examples: Examples, tokenizer: Tokenizer, max_seq_length: int, title: str
) -> None:
    """Tokenises the examples and writes them to `path`, which is whole or not there."""
    columns: dict[str, object] = {"texts": examples.texts}
    if examples.pairs is not None:
        columns["pairs"] = examples.pairs
    if examples.labels is not None:
        labels = np.array(examples.labels)
        columns["labels"] = labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64)

    # Nothing here depends on a tensor's value, and converting it takes seconds.
    @tf.autograph.experimental.do_not_convert
    def encode_batch(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        features = encode(tokenizer, batch["texts"], batch.get("pairs"), max_seq_length)
        if "labels" in batch:
            rows = tf.shape(batch["labels"])[0]
            features[LABELS] = tf.RaggedTensor.from_tensor(tf.reshape(batch["labels"], [rows, -1]))
        return serialize(features)

    records = (
        tf.data.Dataset.from_tensor_slices(columns)
        .batch(ROWS_AT_ONCE)
        .map(encode_batch, num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(2)
    )
    write_serialized(path, records.as_numpy_iterator(), len(examples), title)


def write_serialized(path: str, batches: Iterable[np.ndarray], total: int, title: str) -> None:
    """Writes batches of serialised examples to `path`, which is whole or not there."""
    print(f"tokenising {title}: {total:,} examples")
    progress = tf_keras.utils.Progbar(total, unit_name="example", interval=1)
    try:
        make_folders(os.path.dirname(path))
        with new_file(path) as beside, tf.io.TFRecordWriter(beside) as writer:
            for batch in batches:
                for record in batch:
                    writer.write(record)
                progress.add(len(batch))
            writer.flush()
    except (OSError, tf.errors.OpError) as error:
        raise file_error(path, error) from None


def serialize(features: dict[str, tf.RaggedTensor]) -> tf.Tensor:
    """Makes `tf.train.Example`s of whole batches: five times the speed of Python's."""
    in_file = {_NAMES_IN_FILES.get(name, name): values for name, values in features.items()}
    entries = [_entry(name, values) for name, values in sorted(in_file.items())]
    count = tf.fill([tf.shape(entries[0])[0], 1], len(entries))
    all_entries = tf.stack(entries, axis=1)
    features_message = tf.io.encode_proto(count, [all_entries], ["feature"], "tensorflow.Features")
    return _wrap(features_message, "features", "tensorflow.Example")


def _entry(name: str, values: tf.RaggedTensor) -> tf.Tensor:
    floats = values.dtype.is_floating
    message, kind = ("FloatList", "float_list") if floats else ("Int64List", "int64_list")
    dense = tf.cast(values.to_tensor(), tf.float32 if floats else tf.int64)
    sizes = tf.cast(values.row_lengths()[:, tf.newaxis], tf.int32)
    numbers = tf.io.encode_proto(sizes, [dense], ["value"], f"tensorflow.{message}")
    feature = _wrap(numbers, kind, "tensorflow.Feature")
    rows = tf.shape(feature)[0]
    return tf.io.encode_proto(
        tf.ones([rows, 2], tf.int32),
        [tf.fill([rows, 1], name), feature[:, tf.newaxis]],
        ["key", "value"],
        "tensorflow.Features.FeatureEntry",
    )


def _wrap(message: tf.Tensor, field: str, kind: str) -> tf.Tensor:
    ones = tf.ones([tf.shape(message)[0], 1], tf.int32)
    return tf.io.encode_proto(ones, [message[:, tf.newaxis]], [field], kind)


def read_records(
    path: str, label_type: tf.DType = tf.int64
) -> dict[str, tf.RaggedTensor | tf.Tensor]:
    """Reads a TFRecord file: one of ours, or one that the original program wrote with padding.

    Returns:
      Ids and segments as ragged rows, and the labels if the file has them: `[rows]`, or
      `[rows, labels]` where a row has several.
    """
    columns = read_columns(path, {LABELS: label_type})
    labels, rows = columns.pop(LABELS), int(columns[IDS].nrows())
    count = len(labels) // rows
    if label_type.is_floating and not bool(tf.reduce_all(tf.math.is_finite(labels))):
        raise UserError(f"{path}: some labels are not finite")
    if count:
        columns[LABELS] = labels if count == 1 else tf.reshape(labels, [rows, count])
    return columns


def count_classes(path: str) -> int:
    """Returns the number of classes in a TFRecord file: one more than the largest label."""
    columns = read_records(path)
    if LABELS not in columns:
        raise UserError(f"{path}: has no labels")
    check_labels(path, columns[LABELS], MOST_CLASSES)
    return int(tf.reduce_max(columns[LABELS])) + 1


def check_labels(path: str, labels: tf.Tensor, classes: int) -> None:
    """Refuses labels that are no numbers of classes."""
    if not bool(tf.reduce_all((labels >= 0) & (labels < classes))):
        raise UserError(f"{path}: has labels beyond the {classes:,} classes")


def check_lengths(path: str) -> None:
    """Refuses TFRecords that are longer than their file: TensorFlow would crash, or take as much.

    It reads no more than the lengths, and goes on from each to the next.
    """
    refuse_special(path)
    try:
        size = file_size(path)
        with open_bytes(path) as file:
            place = 0
            while place < size:
                file.seek(place)
                length = int.from_bytes(file.read(_LENGTH), "little")
                place += _OVERHEAD + length
                # Nobody writes empty records, and a file of zeros seems to be full of them.
                if not 0 < length <= MOST_OF_DESCRIPTION or place > size:
                    raise UserError(f"{path}: cut short or damaged")
    except OSError as error:
        raise file_error(path, error) from None


def read_columns(
    path: str, numbers: Mapping[str, tf.DType]
) -> dict[str, tf.RaggedTensor | tf.Tensor]:
    """Reads ids and segments, and the features `numbers`: as many in each row, or none at all."""
    check_lengths(path)
    parse = _parser(tuple(numbers.items()))
    dataset = tf.data.TFRecordDataset(path).batch(ROWS_AT_ONCE)
    try:
        parts = list(dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE))
    except tf.errors.DataLossError:
        raise UserError(f"{path}: cut short or damaged") from None
    except tf.errors.OpError as error:
        reason = re.sub(r"{{.*?}} ?", "", first_line(error))  # Names of TensorFlow's own nodes.
        raise UserError(f"{path}: not TFRecords of examples: {reason}") from None
    if not parts or not any(int(part[IDS].nrows()) for part in parts):
        raise UserError(f"{path}: no records")
    columns = {name: tf.concat([part[name] for part in parts], axis=0) for name in parts[0]}
    lengths = {name: each.row_lengths() for name, each in columns.items()}
    if not int(tf.reduce_min(lengths[IDS])):
        raise UserError(f"{path}: a row has no tokens")
    for name in numbers:
        if int(tf.reduce_min(lengths[name])) != int(tf.reduce_max(lengths[name])):
            raise UserError(f"{path}: some rows have {name}, others don't, or fewer")
        columns[name] = columns[name].flat_values
    return columns


@functools.cache
def _parser(numbers: tuple[tuple[str, tf.DType], ...]) -> Callable:
    """Returns a function that parses records, traced once for all files of a kind."""

    def ragged(dtype: tf.DType) -> tf.io.RaggedFeature:
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)

    dtypes = {**dict.fromkeys((IDS, MASK, SEGMENTS), tf.int64), **dict(numbers)}
    spec = {_NAMES_IN_FILES.get(name, name): ragged(dtype) for name, dtype in dtypes.items()}
    # TPU runs of the original fill the last batch with examples that are not real.
    spec["is_real_example"] = tf.io.FixedLenFeature([], tf.int64, default_value=1)

    def parse(records: tf.Tensor) -> dict[str, tf.RaggedTensor | tf.Tensor]:
        parsed = tf.io.parse_example(records, spec)
        features = {name: parsed[_NAMES_IN_FILES.get(name, name)] for name in dtypes}
        kept = tf.cast(parsed["is_real_example"], tf.bool)
        mask = tf.cast(features[MASK], tf.bool)
        columns: dict[str, tf.RaggedTensor | tf.Tensor] = {
            name: tf.ragged.boolean_mask(
                _to_int32(tf.ragged.boolean_mask(features[name], mask)), kept
            )
            for name in (IDS, SEGMENTS)
        }
        for name, _ in numbers:
            columns[name] = tf.ragged.boolean_mask(features[name], kept)
        return columns

    return tf.function(parse, [tf.TensorSpec([None], tf.string)], autograph=False)


def _to_int32(numbers: tf.RaggedTensor) -> tf.RaggedTensor:
    """Returns smaller integers. Those that don't fit become the largest, which is no id either."""
    return numbers.with_flat_values(
        tf.cast(tf.clip_by_value(numbers.flat_values, -1, tf.int32.max), tf.int32)
    )
