"""Which examples a run is asked to use. Nothing here needs TensorFlow."""

import os

from adapter_bert_tf.data.sources import (
    OriginalFiles,
    OwnFiles,
    RecordFiles,
    Source,
    Tfds,
    find_task,
)
from adapter_bert_tf.data.task import DEV, TEST, TRAIN
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.kinds import TEXT_HEADS
from adapter_bert_tf.run.settings import ClassifierSettings, SquadSettings

# The original writes `train.tf_record`.
RECORD_ENDINGS = (".tfrecord", ".tf_record")


def check_files(settings: ClassifierSettings) -> None:
    """Refuses files and columns that a classifier run can't use."""
    # With a pack, its labels decide, and reading a pack needs TensorFlow.
    if settings.pack is None and settings.do_train:
        find_source(settings)


def check_squad_files(settings: SquadSettings) -> None:
    """Refuses files that a SQuAD run can't use."""
    own_files = settings.train_file or settings.predict_file  # Without any, TFDS has all.
    for part in ("train", "predict"):
        is_missing = own_files and getattr(settings, f"{part}_file") is None
        if getattr(settings, f"do_{part}") and is_missing:
            raise UserError(f"--do_{part}: give --{part}_file")
    for name in ("train_file", "predict_file"):
        path = getattr(settings, name)
        if path is not None and not os.path.exists(path):
            raise UserError(f"--{name}={path}: no such file")


def find_source(
    settings: ClassifierSettings, kind: str | None = None, labels: tuple[str, ...] | None = None
) -> Source:
    """Finds the examples: original files, TFDS, your own tables, or TFRecords.

    What is asked for and can't be read is refused here, before anything is loaded.

    Args:
      settings: The run's settings.
      kind: The kind of task, if a pack says it.
      labels: Names of the classes, if a pack says them.
    """
    source = _find(settings, kind or settings.kind, labels)
    for asked, split in (
        (settings.do_train, TRAIN),
        (settings.do_eval and not settings.do_train, DEV),
        (settings.do_predict, TEST),
    ):
        if asked and not split_names(settings, source, split):
            part = {TRAIN: "train", DEV: "eval", TEST: "predict"}[split]
            raise UserError(f"--do_{part}: there is no {split} set; give --{split}_file")
    if settings.early_stopping and not split_names(settings, source, DEV):
        raise UserError(f"--early_stopping={settings.early_stopping}: there is no dev set")
    used = {TRAIN: settings.do_train, DEV: settings.do_eval, TEST: settings.do_predict}
    for split in (split for split, is_used in used.items() if is_used):
        for name in split_names(settings, source, split):
            source.check(name)
    return source


def _find(settings: ClassifierSettings, kind: str | None, labels: tuple[str, ...] | None) -> Source:
    if settings.task is not None:
        settings.refuse_for("--task")
        task = find_task(settings.task)
        if settings.data_dir:
            return OriginalFiles(task, settings.data_dir, TEXT_HEADS)
        return Tfds(task, TEXT_HEADS)
    files = settings.own_files
    if all(path.endswith(RECORD_ENDINGS) for path in files.values()):
        settings.refuse_for("TFRecords")
        return RecordFiles(files, TEXT_HEADS, labels, settings.name)
    return OwnFiles(
        files,
        TEXT_HEADS,
        text_column=settings.text_column,
        pair_column=settings.text_pair_column,
        label_columns=settings.label_column,
        separator=settings.label_separator,
        skip_unlabelled=settings.skip_unlabelled,
        encoding=settings.encoding,
        delimiter=settings.delimiter,
        name=settings.name,
        kind=kind,
        labels=labels,
        split_seed=settings.seed if settings.do_train and settings.do_eval else None,
    )


def split_names(settings: ClassifierSettings, source: Source, kind: str) -> list[str]:
    """Returns the splits of a kind: MNLI has two for evaluation, your own files may have none."""
    if settings.task is not None:
        return source.task.split_names(kind)
    splits = source.splits if isinstance(source, OwnFiles) else settings.own_files
    return [kind] if kind in splits else []
