"""What classifier and SQuAD runs have in common."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from adapter_bert_tf.base.base import Base
from adapter_bert_tf.base.load import find_base, make_encoder
from adapter_bert_tf.data.batches import bucket_lengths
from adapter_bert_tf.encoder.adapter import AdapterConfig
from adapter_bert_tf.errors import UserError
from adapter_bert_tf.files import absolute, is_folder
from adapter_bert_tf.heads.head import Head
from adapter_bert_tf.heads.kinds import NO_HEAD
from adapter_bert_tf.pack.model import load_pack
from adapter_bert_tf.pack.original import is_tuned_checkpoint, save_pack_of_checkpoint
from adapter_bert_tf.pack.pack import Pack, read_pack, refuse_no_head
from adapter_bert_tf.run.devices import worker_number
from adapter_bert_tf.run.folder import RunFolder
from adapter_bert_tf.run.settings import RunSettings, Settings
from adapter_bert_tf.run.workers import LOST, are_several, on_signals
from adapter_bert_tf.serve.export import export_packs, find_version
from adapter_bert_tf.task import Task
from adapter_bert_tf.text.inputs import IDS, SEGMENTS
from adapter_bert_tf.tuning.task_model import TaskModel

# Makes the model of a run: see `make_model`.
ModelMaker = Callable[[RunSettings, type[Head], tuple[str, ...], tf.distribute.Strategy], TaskModel]

# Settings that a pack keeps among its inputs.
_INPUTS = {"max_seq_length", "doc_stride", "max_query_length"}


@contextlib.contextmanager
def started(
    settings: RunSettings, strategy: tf.distribute.Strategy | None
) -> Iterator[tuple[tf.distribute.Strategy, RunFolder, threading.Event]]:
    """Finds the devices and takes the folder.

    Args:
      settings: The settings.
      strategy: The strategy, if devices are not to be found.

    Yields:
      The strategy, the folder, and what ends the training when it is set.
    """
    stop = threading.Event()
    several = strategy is None and are_several()
    with contextlib.ExitStack() as stack:
        strategy = settings.devices.prepare(strategy)
        if several:
            # A worker that ends at once would leave the others waiting: it goes on until all stop.
            stack.enter_context(on_signals(stop.set))
        folder = stack.enter_context(RunFolder(settings.output_dir, worker_number(strategy)))
        try:
            yield strategy, folder, stop
        except LOST:
            if not several:
                raise
            raise UserError(
                "another worker is gone; the same command on all of them resumes the run"
            ) from None


def with_pack(settings: Settings, folder: RunFolder) -> tuple[Settings, Pack | None]:
    """Takes adapters and tuning from the pack that the run starts from, if it starts from one.

    If no pack is named, it is the run's own, if nothing is trained, or that of a checkpoint of
    the original program.
    """
    _refuse_folder(settings, folder)
    path = settings.pack or _find_pack(settings, folder)
    if path is None:
        return settings, None
    pack = read_pack(path)
    _refuse_contradiction(settings, pack, path)
    if not settings.do_train:
        refuse_no_head(pack, path)
    changes: dict[str, Any] = {"adapter": pack.adapter, "tuning": pack.tuning}
    if not settings.do_train:
        # The pack's own inputs: other ones would give other answers.
        names = settings.__dataclass_fields__.keys() & _INPUTS & pack.inputs.keys()
        changes |= {name: pack.inputs[name] for name in names}
        if settings.do_lower_case is None and pack.vocabulary:
            changes["do_lower_case"] = pack.vocabulary["lower_case"]
    return dataclasses.replace(settings, pack=path, **changes), pack


def _find_pack(settings: RunSettings, folder: RunFolder) -> str | None:
    if not settings.do_train and is_folder(folder.pack):
        return folder.pack
    if is_tuned_checkpoint(settings.bert):
        save_pack_of_checkpoint(
            settings.bert, settings.bert_config_file, settings.vocab_file, folder.imported_pack
        )
        return folder.imported_pack
    if settings.do_train:
        return None
    raise UserError(
        f"--pack: nothing is trained, {folder.pack} is not there, and {settings.bert} is not a "
        "checkpoint of a tuned task"
    )


def _refuse_contradiction(settings: RunSettings, pack: Pack, path: str) -> None:
    """Refuses flags of adapters and tuning that say something else than the pack."""
    for owner, theirs in (("tuning", pack.tuning), ("adapter", pack.adapter)):
        for field, given in settings.explicit.get(owner, {}).items():
            value = getattr(theirs, field, None)
            if given != value:
                shown = f"{field}={value}" if theirs else "no adapters"
                raise UserError(f"{owner} {field}={given}: the pack {path} has {shown}")


def _refuse_folder(settings: RunSettings, folder: RunFolder) -> None:
    """Refuses a folder whose files would be replaced by those of another pack."""
    given = settings.pack is not None and absolute(settings.pack)
    is_own = given == absolute(folder.pack)
    if given and settings.do_train and is_own:
        raise UserError(f"--pack={settings.pack}: would be replaced; give another --output_dir")
    if given and not settings.do_train and not is_own and folder.asked():
        raise UserError(
            f"--output_dir={folder.path}: belongs to another run than --pack={settings.pack}; "
            "give another folder"
        )


def make_model(
    settings: RunSettings,
    kind: type[Head],
    labels: tuple[str, ...],
    strategy: tf.distribute.Strategy,
) -> TaskModel:
    """Seeds what is random, and loads the base, and the pack if the settings have one."""
    tf_keras.utils.set_random_seed(settings.seed)
    return build_model(settings, kind, labels, strategy)


def base_arguments(settings: RunSettings) -> tuple[str, str | None, str | None, bool | None]:
    """Returns what says which base it is, as `find_base` takes it."""
    return settings.bert, settings.bert_config_file, settings.vocab_file, settings.do_lower_case


def build_model(
    settings: RunSettings,
    kind: type[Head],
    labels: tuple[str, ...],
    strategy: tf.distribute.Strategy,
    find: Callable[..., Base] = find_base,
) -> TaskModel:
    """Does what `make_model` does where all is seeded; `find` finds the base."""
    with strategy.scope():
        base = find(*base_arguments(settings))
        encoder = make_encoder(base, _new_adapters(settings, base))
        head = kind.make(labels, encoder.base.config.output_dropout)
        model = TaskModel(encoder, head, settings.tuning)
        if settings.pack is None:
            return model
        found = read_pack(settings.pack).kind
        if found not in (head.kind, NO_HEAD):
            raise UserError(f"{settings.pack}: is a {found}, the task a {head.kind}")
        return load_pack(model, settings.pack)


def _new_adapters(settings: RunSettings, base: Base) -> AdapterConfig | None:
    """Returns the design without adapters that a new run would leave as random as they start."""
    adapter, first = settings.adapter, settings.tuning.from_layer
    if adapter is None or settings.pack is not None or not first:
        return adapter
    layers = (i for i in adapter.in_layers(base.config.num_layers) if i >= first)
    return dataclasses.replace(adapter, layers=tuple(layers))


def padded_lengths(settings: RunSettings, on_tpu: bool) -> list[int]:
    """Returns the lengths that rows are padded to; a TPU wants a single one."""
    longest = settings.max_seq_length
    return [longest] if settings.pad_to_max or on_tpu else bucket_lengths(longest)


def check_rows(
    path: str, columns: Mapping[str, tf.RaggedTensor], max_seq_length: int, base: Base
) -> None:
    """Refuses records with rows that are too long, or of another vocabulary."""
    ids, config = columns[IDS], base.config
    longest = int(tf.reduce_max(ids.row_lengths()))
    if longest > max_seq_length:
        raise UserError(f"{path}: a row has {longest} tokens, more than --max_seq_length")
    for name, size in ((IDS, config.vocab_size), (SEGMENTS, config.type_vocab_size)):
        values = columns[name].flat_values
        if not bool(tf.reduce_all((values >= 0) & (values < size))):
            what = "token ids beyond the base's vocabulary" if name == IDS else "unknown segments"
            raise UserError(f"{path}: has {what}; expected 0 to {size - 1}")


def check_export(settings: RunSettings) -> None:
    """Refuses an export that could not be written, before hours of training."""
    if settings.export_dir:
        find_version(settings.export_dir)


def export(task: Task, settings: RunSettings, folder: RunFolder) -> None:
    """Exports the task pack for TF Serving, if the settings say where to."""
    if not settings.export_dir or not folder.is_written:
        return
    base = find_base(*base_arguments(settings))
    pack = folder.pack if settings.do_train or not settings.pack else settings.pack
    theirs = read_pack(pack).inputs
    for name, value in task.settings.items():
        if name in theirs and theirs[name] != value:
            raise UserError(
                f"--export_dir: {pack} has {name}={theirs[name]}, this run {value}; the export "
                "would answer differently"
            )
    print(f"exported: {export_packs(base, [pack], settings.export_dir)}")


def identify(settings: RunSettings, model: TaskModel, data: Mapping[str, str]) -> dict[str, Any]:
    """Returns what makes a run another run: its settings, and digests of what they name.

    Args:
      settings: The settings.
      model: The model, before it is trained.
      data: Digests of the data, by what the data is.
    """
    base = model.encoder.base
    digests = {**data, "base": base.fingerprint, "base's LayerNorms": base.layer_norm_fingerprint}
    digests |= {f"files from {address}": sha256 for address, sha256 in base.fetched.items()}
    if settings.pack is not None:
        digests["pack"] = read_pack(settings.pack).sha256
    return {**settings.identity(), "digests": digests}
