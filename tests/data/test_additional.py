import collections

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.data.additional import ADDITIONAL
from adapter_bert_tf.data.sources import OriginalFiles, find_task
from adapter_bert_tf.data.task import ALL, DEV, TEST, TRAIN, TaskDefinition
from adapter_bert_tf.heads.kinds import TEXT_LABELS

# Folder in the shared data, and the sizes that the paper gives.
AT_HAND = {
    "20newsgroups": ("20newsgroups", (15076, 1885, 1885)),
    "airline": ("airline", (11712, 1464, 1464)),
    "corporate_messaging": ("corporate_messaging", (2494, 312, 312)),
    "emotion": ("emotion", (32000, 4000, 4000)),
    "global_warming": ("global_warming", (3380, 422, 423)),
    "political_audience": ("political", (4000, 500, 500)),
    "political_bias": ("political", (4000, 500, 500)),
    "political_message": ("political", (4000, 500, 500)),
    "progressive_opinion": ("progressive", (927, 116, 116)),
    "progressive_stance": ("progressive", (927, 116, 116)),
    "sms_spam": ("sms_spam", (4459, 557, 558)),
    # A subset that is split already. One title of its training set has 11 lines.
    "news_aggregator": ("news_aggregator", (10672, 1334, 1334)),
}
CLASSES = {"progressive_opinion": 3, "progressive_stance": 4, "20newsgroups": 20, "emotion": 13}


def _files(task: TaskDefinition, folder: str) -> OriginalFiles:
    return OriginalFiles(task, folder, TEXT_LABELS)


@pytest.mark.parametrize("name", AT_HAND)
def test_published_files_have_the_papers_sizes(data, name):
    folder, sizes = AT_HAND[name]
    source = _files(find_task(name), str(data / "additional" / folder))
    splits = [source.read(split) for split in (TRAIN, DEV, TEST)]
    assert tuple(map(len, splits)) == sizes
    assert len(source.labels) == CLASSES.get(name, len(source.labels))
    assert set(splits[0].labels) == set(range(len(source.labels)))


def test_there_are_17_tasks():
    assert len(ADDITIONAL) == 17


def _write(folder, task, columns: list[str], rows: list[list[str]]) -> str:
    """Writes a file under the task's name for it."""
    split = task.splits[ALL]
    delimiter = "," if split.layout.kind == "csv" else "\t"
    lines = [delimiter.join(cells) for cells in (columns, *rows)]
    (folder / split.files[0]).write_text("\n".join(lines))
    return str(folder)


IN_TABLES = [task for task in ADDITIONAL if task.name != "20newsgroups"]


@pytest.mark.parametrize("task", IN_TABLES, ids=lambda task: task.name)
def test_other_columns_are_told_before_tensorflow_is_needed(tmp_path, task):
    folder = _write(tmp_path, task, ["id", "body", "verdict"], [["1", "x", "y"], ["2", "x", "y"]])
    with pytest.raises(UserError) as error:
        _files(task, folder).check(TRAIN)
    assert "\n" not in str(error.value)
    assert task.splits[ALL].files[0] in str(error.value)
    if not task.splits[ALL].layout.header:
        assert f"no column {task.text!r}; the columns are body, id, verdict" in str(error.value)


def test_a_missing_label_column_is_told(tmp_path):
    task = find_task("progressive_stance")
    folder = _write(tmp_path, task, ["tweet", "q1_x"], [["a", "b"]])
    told = r"sentiment.csv: no column 'q1_\*target'; the columns are q1_x, tweet"
    for ask in (lambda files: files.check(DEV), lambda files: files.labels):
        with pytest.raises(UserError, match=told):
            ask(_files(task, folder))
    _write(tmp_path, task, ["tweet", "q1_a_target", "q1_b_target"], [["a", "b", "c"]])
    with pytest.raises(UserError, match="several columns are called 'q1_"):
        _files(task, folder).check(TRAIN)


def test_a_column_is_found_by_its_pattern(tmp_path):
    task = find_task("progressive_opinion")
    columns = ["q2_what_of_the_tweet", "q2_what_of_the_tweet:confidence", "orig_q2_tweet", "tweet"]
    rows = [[f"{i % 3}. opinion", "0.5", "", f"text {i}"] for i in range(30)]
    source = _files(task, _write(tmp_path, task, columns, rows))
    assert source.labels == ("0. opinion", "1. opinion", "2. opinion")
    assert len(source.read(TRAIN)) == 24


def test_classes_are_those_of_rows_with_a_text(tmp_path):
    task = find_task("progressive_opinion")
    rows = [[str(i % 3), f"text {i}"] for i in range(30)] + [["4", " "]]
    source = _files(task, _write(tmp_path, task, ["q2_tweet", "tweet"], rows))
    assert source.labels == ("0", "1", "2")


def test_news_aggregator_whole_and_split(tmp_path):
    task = find_task("news_aggregator")
    with pytest.raises(UserError, match="expected newsCorpora.csv for news_aggregator"):
        _files(task, str(tmp_path)).check(TRAIN)
    (tmp_path / "train.txt").write_text('b\tA "title\nm\t"One\n2\t""more"""\n')
    (tmp_path / "valid.txt").write_text("e\tx\n")
    source = _files(task, str(tmp_path))
    train = source.read(TRAIN)
    assert (train.texts, train.labels) == (['A "title', 'One\n2\t"more"'], [0, 2])
    assert source.read(DEV).labels == [1]
    rows = [f'{i}\t"Title" {i}\tu\tp\tt\ts\th\t0\n' for i in range(20)]
    (tmp_path / "newsCorpora.csv").write_text("".join(rows))
    whole = _files(task, str(tmp_path)).read(TRAIN)
    assert collections.Counter(whole.labels) == {3: 16}
    assert all(text.startswith('"Title" ') for text in whole.texts)
