"""What classifier and SQuAD runs have in common."""

import dataclasses
import os

import tensorflow as tf

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.load import find_base, load_encoder
from adapter_bert_tf.data.batches import bucket_lengths
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.pack import Pack, read_pack
from adapter_bert_tf.run.devices import worker_number
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import RunSettings, Settings
from adapter_bert_tf.serve.export import export_packs, find_version
from adapter_bert_tf.task import Task
from adapter_bert_tf.tuning.task_model import TaskModel


def with_pack(settings: Settings, folder: RunFolder) -> tuple[Settings, Pack | None]:
    """Takes adapters and tuning from the pack that the run starts from, if it starts from one.

    Without training, that is the run's own pack, if no other is named.
    """
    path = settings.pack
    if path is None and not settings.do_train:
        path = folder.pack
        if not os.path.isdir(path):
            raise UserError(f"--pack: nothing is trained, and {path} is not there")
    if path is None:
        return settings, None
    pack = read_pack(path)
    return (
        dataclasses.replace(settings, pack=path, adapter=pack.adapter, tuning=pack.tuning),
        pack,
    )


def make_model(
    settings: RunSettings,
    kind: type[Head],
    labels: tuple[str, ...],
    strategy: tf.distribute.Strategy,
) -> TaskModel:
    """Loads the base, and the pack if the settings have one."""
    with strategy.scope():
        encoder = load_encoder(
            settings.bert,
            settings.adapter,
            config_file=settings.bert_config_file,
            vocab_file=settings.vocab_file,
            lower_case=settings.do_lower_case,
        )
        head = kind.make(labels, encoder.base.config.output_dropout)
        model = TaskModel(encoder, head, settings.tuning)
        if settings.pack is None:
            return model
        found = read_pack(settings.pack).kind
        if found != head.kind:
            raise UserError(f"{settings.pack}: is a {found}, the task a {head.kind}")
        return load_pack(model, settings.pack)


def padded_lengths(settings: RunSettings, on_tpu: bool) -> list[int]:
    """Returns the lengths that rows are padded to; a TPU wants a single one."""
    longest = settings.max_seq_length
    return [longest] if settings.pad_to_max or on_tpu else bucket_lengths(longest)


def check_rows(path: str, ids: tf.RaggedTensor, max_seq_length: int, base: Base) -> None:
    """Refuses records with rows that are too long, or of another vocabulary."""
    longest = int(tf.reduce_max(ids.row_lengths()))
    if longest > max_seq_length:
        raise UserError(f"{path}: a row has {longest} tokens, more than --max_seq_length")
    if int(tf.reduce_max(ids.flat_values)) >= base.config.vocab_size:
        raise UserError(f"{path}: has token ids beyond the base's vocabulary")


def check_export(settings: RunSettings) -> None:
    """Refuses an export that could not be written, before hours of training."""
    if settings.export_dir:
        find_version(settings.export_dir)


def export(task: Task, settings: RunSettings, folder: RunFolder) -> None:
    """Exports the task pack for TF Serving, if the settings say where to."""
    if not settings.export_dir or worker_number(task.model.distribute_strategy):
        return
    base = find_base(
        settings.bert, settings.bert_config_file, settings.vocab_file, settings.do_lower_case
    )
    pack = folder.pack if settings.do_train or not settings.pack else settings.pack
    theirs = read_pack(pack).inputs
    for name, value in task.settings.items():
        if name in theirs and theirs[name] != value:
            raise UserError(
                f"--export_dir: {pack} has {name}={theirs[name]}, this run {value}; the export "
                "would answer differently"
            )
    print(f"exported: {export_packs(base, [pack], settings.export_dir)}")
