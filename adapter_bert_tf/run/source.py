"""Which examples a run is asked to use. Nothing here needs TensorFlow."""

from adapter_bert_tf.base.presets import refuse_unknown
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
from adapter_bert_tf.files import exists
from adapter_bert_tf.heads.kinds import NO_HEAD, TEXT_LABELS
from adapter_bert_tf.pack.pack import Pack, read_pack, refuse_baseline
from adapter_bert_tf.run.settings import ClassifierSettings, RunSettings, SquadSettings
from adapter_bert_tf.squad.questions import read_squad

# The original writes `train.tf_record`.
RECORD_ENDINGS = (".tfrecord", ".tf_record")


def check_files(settings: ClassifierSettings) -> None:
    """Refuses files and columns that a classifier run can't use."""
    pack = _check_base(settings)
    if pack is not None or settings.do_train:
        find_source(settings, *known_from(pack, settings))
    for split, path in settings.own_files.items():
        # Even if this run does not read it.
        if not exists(path):
            raise UserError(f"--{split}_file={path}: no such file")


def _check_base(settings: RunSettings) -> Pack | None:
    """Refuses a BERT or a pack that is not there, and returns the pack's description."""
    refuse_unknown(settings.bert)
    if settings.pack is None:
        return None
    pack = read_pack(settings.pack)
    refuse_baseline(pack, settings.pack)
    return pack


def known_from(
    pack: Pack | None, settings: ClassifierSettings
) -> tuple[str | None, tuple[str, ...] | None]:
    """Returns the kind and the labels that a pack says; None where the files have to say them."""
    if pack is None or pack.kind == NO_HEAD:
        return None, None
    # A pack that was imported has no names. Files with labels bring them.
    is_named = pack.labels or not pack.class_names
    brings_names = settings.do_train or settings.do_eval
    return pack.kind, pack.class_names if is_named or not brings_names else None


def check_squad_files(settings: SquadSettings) -> None:
    """Refuses files that a SQuAD run can't use."""
    _check_base(settings)
    own_files = settings.train_file or settings.predict_file  # Without any, TFDS has all.
    for part in ("train", "predict"):
        is_missing = own_files and getattr(settings, f"{part}_file") is None
        if getattr(settings, f"do_{part}") and is_missing:
            raise UserError(f"--do_{part}: give --{part}_file")
    for name in ("train_file", "predict_file"):
        path = getattr(settings, name)
        if path is not None and not exists(path):
            raise UserError(f"--{name}={path}: no such file")
        if path is not None and not path.endswith(RECORD_ENDINGS):
            read_squad(path)


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


def _split_seed(settings: ClassifierSettings) -> int | None:
    """Returns the seed that a dev set is drawn with; None if none is needed."""
    if not (settings.do_train and settings.do_eval):
        return None
    return settings.seed if settings.split_seed is None else settings.split_seed


def _find(settings: ClassifierSettings, kind: str | None, labels: tuple[str, ...] | None) -> Source:
    if settings.task is not None:
        settings.refuse_for("--task")
        task = find_task(settings.task)
        if settings.data_dir:
            return OriginalFiles(task, settings.data_dir, TEXT_LABELS)
        return Tfds(task)
    files = settings.own_files
    if all(path.endswith(RECORD_ENDINGS) for path in files.values()):
        settings.refuse_for("TFRecords")
        return RecordFiles(files, labels, settings.name)
    return OwnFiles(
        files,
        TEXT_LABELS,
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
        split_seed=_split_seed(settings),
    )


def split_names(settings: ClassifierSettings, source: Source, kind: str) -> list[str]:
    """Returns the splits of a kind: MNLI has two for evaluation, your own files may have none."""
    if settings.task is not None:
        return source.task.split_names(kind)
    splits = source.splits if isinstance(source, OwnFiles) else settings.own_files
    return [kind] if kind in splits else []
