"""The GLUE tasks, in their official files."""

import dataclasses

from adapter_bert_tf.data.tables import PLAIN_TSV, Layout
from adapter_bert_tf.data.task import DEV, TEST, TRAIN, Split, TaskDefinition, TfdsTask

_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")
# TFDS numbers MNLI's classes in another order than BERT's own programs do.
_TFDS_NLI = ("entailment", "neutral", "contradiction")


def _tfds(name: str, text: str, pair: str | None, labels: tuple[str, ...]) -> TfdsTask:
    splits = {TRAIN: "train", DEV: "validation", TEST: "test"}
    return TfdsTask(f"glue/{name}", text, pair, splits, labels)


def _splits(label: str, layout: Layout = PLAIN_TSV) -> dict[str, Split]:
    return {
        TRAIN: Split(("train.tsv",), layout, label),
        DEV: Split(("dev.tsv",), layout, label),
        TEST: Split(("test.tsv",)),
    }


def _mnli(name: str, *kinds: str) -> TaskDefinition:
    """Describes MNLI with some of its two dev and test sets."""
    files = {"matched": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"}
    tests = {f"test_{kind}": Split((f"test_{kind}.tsv",)) for kind in kinds}
    devs = {f"dev_{kind}": Split((f"dev_{kind}.tsv",), label="gold_label") for kind in kinds}
    in_tfds = {f"dev_{kind}": f"validation_{kind}" for kind in kinds}
    return TaskDefinition(
        name,
        text="sentence1",
        pair="sentence2",
        labels=_NLI,
        splits={TRAIN: Split(("train.tsv",), label="gold_label"), **devs, **tests},
        submission={f"test_{kind}": files[kind] for kind in kinds},
        tfds=TfdsTask(
            "glue/mnli",
            "premise",
            "hypothesis",
            {TRAIN: "train", **in_tfds, **{test: test for test in tests}},
            _TFDS_NLI,
        ),
    )


GLUE = (
    TaskDefinition(
        "CoLA",
        text="sentence",
        labels=_BINARY,
        metrics=("matthews",),
        # Only the test file has a header.
        splits=_splits(
            "label", dataclasses.replace(PLAIN_TSV, header=("source", "label", "mark", "sentence"))
        ),
        submission={TEST: "CoLA.tsv"},
        tfds=_tfds("cola", "sentence", None, _BINARY),
    ),
    TaskDefinition(
        "SST-2",
        text="sentence",
        labels=_BINARY,
        splits=_splits("label"),
        submission={TEST: "SST-2.tsv"},
        tfds=_tfds("sst2", "sentence", None, _BINARY),
    ),
    TaskDefinition(
        "MRPC",
        text="#1 String",
        pair="#2 String",
        labels=_BINARY,
        metrics=("accuracy", "f1"),
        splits=_splits("Quality"),
        submission={TEST: "MRPC.tsv"},
        tfds=_tfds("mrpc", "sentence1", "sentence2", _BINARY),
    ),
    TaskDefinition(
        "STS-B",
        text="sentence1",
        pair="sentence2",
        metrics=("pearson", "spearman"),
        splits=_splits("score"),
        submission={TEST: "STS-B.tsv"},
        tfds=_tfds("stsb", "sentence1", "sentence2", ()),
    ),
    TaskDefinition(
        "QQP",
        text="question1",
        pair="question2",
        labels=_BINARY,
        metrics=("accuracy", "f1"),
        # A few lines of the official files are incomplete.
        splits=_splits("is_duplicate", dataclasses.replace(PLAIN_TSV, skips_short_lines=True)),
        submission={TEST: "QQP.tsv"},
        tfds=_tfds("qqp", "question1", "question2", _BINARY),
    ),
    _mnli("MNLI", "matched", "mismatched"),
    # The paper tunes the two dev sets apart: here the other one decides which epoch is best.
    _mnli("MNLI-mm", "mismatched"),
    TaskDefinition(
        "QNLI",
        text="question",
        pair="sentence",
        labels=_ENTAILMENT,
        splits=_splits("label"),
        submission={TEST: "QNLI.tsv"},
        tfds=_tfds("qnli", "question", "sentence", _ENTAILMENT),
    ),
    TaskDefinition(
        "RTE",
        text="sentence1",
        pair="sentence2",
        labels=_ENTAILMENT,
        splits=_splits("label"),
        submission={TEST: "RTE.tsv"},
        tfds=_tfds("rte", "sentence1", "sentence2", _ENTAILMENT),
    ),
    TaskDefinition(
        "WNLI",
        text="sentence1",
        pair="sentence2",
        labels=_BINARY,
        splits=_splits("label"),
        submission={TEST: "WNLI.tsv"},
        tfds=_tfds("wnli", "sentence1", "sentence2", _BINARY),
    ),
    TaskDefinition(
        "AX",
        text="sentence1",
        pair="sentence2",
        labels=_NLI,
        splits={TEST: Split(("AX.tsv", "diagnostic.tsv", "test.tsv"))},
        submission={TEST: "AX.tsv"},
        tfds=TfdsTask("glue/ax", "premise", "hypothesis", {TEST: "test"}, _TFDS_NLI),
    ),
)
