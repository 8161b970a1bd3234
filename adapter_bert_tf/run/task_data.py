"""A run's examples, from where the settings say to batches."""

import tensorflow as tf

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.data.batches import Batches
from adapter_bert_tf.data.records import ENDINGS, LABELS, cached_records, read_records
from adapter_bert_tf.data.sources import (
    OriginalFiles,
    OwnFiles,
    RecordFiles,
    Source,
    Tfds,
    find_task,
)
from adapter_bert_tf.data.task import CLASSIFICATION, DEV, TEST, TRAIN
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.pack.pack import read_pack
from adapter_bert_tf.run.classifier_settings import ClassifierSettings
from adapter_bert_tf.text.inputs import IDS
from adapter_bert_tf.text.tokenizer import Tokenizer


def find_source(settings: ClassifierSettings) -> Source:
    """Finds the task's examples: original files, TFDS, own tables, or TFRecords."""
    if settings.task is not None:
        task = find_task(settings.task)
        return OriginalFiles(task, settings.data_dir) if settings.data_dir else Tfds(task)
    own_files = {split: getattr(settings, f"{split}_file") for split in (TRAIN, DEV, TEST)}
    files = {split: path for split, path in own_files.items() if path is not None}
    labels = tuple(read_pack(settings.pack).labels) if settings.pack else None
    if all(path.endswith(ENDINGS) for path in files.values()):
        return RecordFiles(files, len(labels) if labels else _classes_in(files))
    return OwnFiles(
        files,
        settings.text_column,
        settings.text_pair_column,
        settings.label_column,
        labels,
        settings.regression,
    )


def _classes_in(files: dict[str, str]) -> int:
    path = next(iter(files.values()))
    columns = read_records(path)
    if LABELS not in columns:
        raise UserError(f"{path}: has no labels")
    return int(tf.reduce_max(columns[LABELS])) + 1


def split_names(settings: ClassifierSettings, source: Source, kind: str) -> list[str]:
    """The splits of a kind that there are: MNLI has two for evaluation, own files may lack one."""
    if source.task.splits:
        return source.task.split_names(kind)
    return [kind] if getattr(settings, f"{kind}_file") else []


def check_splits(settings: ClassifierSettings, source: Source) -> None:
    """Tells before anything is done that something asked for has no examples."""
    for asked, kind, flag in (
        (settings.do_train, TRAIN, "train"),
        (settings.do_eval and not settings.do_train, DEV, "eval"),
        (settings.do_predict, TEST, "predict"),
    ):
        if asked and not split_names(settings, source, kind):
            raise UserError(
                f"--do_{flag}: {source.task.name} has no {kind} set; give --{kind}_file"
            )


def tokenizer_for(base: Base, max_seq_length: int) -> Tokenizer:
    """Returns the base's tokenizer; refuses rows that are longer than the base takes."""
    longest = base.config.max_sequence_length
    if max_seq_length > longest:
        raise UserError(f"--max_seq_length={max_seq_length}: the base takes {longest} at most")
    if base.vocabulary is None:
        raise UserError(f"{base.origin}: no vocab.txt beside it; give --vocab_file")
    return Tokenizer(base.vocabulary)


def check_rows(path: str, ids: tf.RaggedTensor, max_seq_length: int, words: int) -> None:
    """Refuses records whose rows are too long, or of another vocabulary."""
    longest = int(tf.reduce_max(ids.row_lengths()))
    if longest > max_seq_length:
        raise UserError(f"{path}: a row has {longest} tokens, more than --max_seq_length")
    if int(tf.reduce_max(ids.flat_values)) >= words:
        raise UserError(f"{path}: has token ids beyond the base's vocabulary")


class TaskData:
    """The batches of a run.

    Args:
      settings: The run's settings.
      source: Its examples.
      base: The base, whose vocabulary and sizes they have to fit.
      on_tpu: Whether all batches have to be of one shape.
    """

    def __init__(
        self, settings: ClassifierSettings, source: Source, base: Base, on_tpu: bool = False
    ):
        self.tokenizer = tokenizer_for(base, settings.max_seq_length)
        self._settings = settings
        self._source = source
        self._words = base.config.vocab_size
        self._on_tpu = on_tpu

    def batches(self, split: str, batch_size: int) -> Batches:
        """Returns a split, tokenised and checked."""
        path = self._records(split)
        columns = read_records(
            path, tf.int64 if self._source.task.kind == CLASSIFICATION else tf.float32
        )
        self._check(path, columns)
        if split.startswith(TEST):
            columns.pop(LABELS, None)
        elif LABELS not in columns:
            raise UserError(f"{path}: has no labels")
        lengths = self._settings.lengths(self._on_tpu)
        return Batches(columns, batch_size, lengths, fixed_rows=self._on_tpu)

    def _records(self, split: str) -> str:
        if isinstance(self._source, RecordFiles):
            return self._source.files[split]
        return cached_records(
            self._source.read(split),
            self.tokenizer,
            self._settings.max_seq_length,
            self._settings.cache_dir,
            title=f"{self._source.task.name} {split}",
        )

    def _check(self, path: str, columns: dict) -> None:
        """Refuses records that the model can't take: ours always fit, others may not."""
        check_rows(path, columns[IDS], self._settings.max_seq_length, self._words)
        classes = len(self._source.labels)
        if classes and LABELS in columns and int(tf.reduce_max(columns[LABELS])) >= classes:
            raise UserError(f"{path}: has labels beyond the {classes} classes")
