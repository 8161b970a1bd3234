import collections

import pytest

from adapter_bert_tf import UserError
from adapter_bert_tf.data.examples import Examples, TaskFiles
from adapter_bert_tf.data.sources import TASKS, find_task
from adapter_bert_tf.data.task import DEV, TEST, TRAIN, TaskDefinition
from adapter_bert_tf.heads.kinds import TEXT_LABELS

MNLI_HEAD = "index\tpromptID\tpairID\tgenre\ts1_bp\ts2_bp\ts1_parse\ts2_parse\tsentence1\tsentence2"


def _write(folder, name: str, text: str, encoding: str = "utf-8") -> str:
    (folder / name).write_bytes(text.encode(encoding))
    return str(folder)


def _read(task: TaskDefinition, folder: str, split: str) -> Examples:
    return TaskFiles(task, folder, TEXT_LABELS).read(split)


def test_cola_has_a_header_in_its_test_file_only(tmp_path):
    _write(tmp_path, "train.tsv", 'gj04\t1\t\tHe said "no.\nbc01\t0\t*\tThem is.\r\n')
    _write(tmp_path, "test.tsv", "index\tsentence\n0\tA test.\n")
    train = _read(find_task("CoLA"), str(tmp_path), TRAIN)
    assert (train.texts, train.labels) == (['He said "no.', "Them is."], [1, 0])
    test = _read(find_task("CoLA"), str(tmp_path), TEST)
    assert (test.texts, test.pairs, test.labels) == (["A test."], None, None)


def test_mrpc_starts_with_a_byte_order_mark(tmp_path):
    text = '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tOne " two\tThree\n'
    examples = _read(find_task("mrpc"), _write(tmp_path, "dev.tsv", text), DEV)
    assert (examples.texts, examples.pairs, examples.labels) == (['One " two'], ["Three"], [1])


def test_mnli_has_other_columns_in_each_file(tmp_path):
    cells = '0\t1\t2\tfiction\tp\tp\tp\tp\tA man.\tA "person.'
    _write(tmp_path, "train.tsv", f"{MNLI_HEAD}\tlabel1\tgold_label\n{cells}\tneutral\tneutral\n")
    labels = "\t".join(f"label{i}" for i in range(1, 6))
    dev = f"{MNLI_HEAD}\t{labels}\tgold_label\n{cells}{5 * chr(9)}\tcontradiction\n"
    _write(tmp_path, "dev_matched.tsv", dev.replace("\t\tcontradiction", "\tneutral\tentailment"))
    _write(tmp_path, "dev_mismatched.tsv", dev)
    _write(tmp_path, "test_matched.tsv", f"{MNLI_HEAD}\n{cells}\n")
    task = find_task("MNLI")
    assert task.labels == ("contradiction", "entailment", "neutral")
    assert _read(task, str(tmp_path), TRAIN).labels == [2]
    assert _read(task, str(tmp_path), "dev_matched").labels == [1]
    mismatched = _read(task, str(tmp_path), "dev_mismatched")
    assert (mismatched.texts, mismatched.pairs) == (["A man."], ['A "person.'])
    assert mismatched.labels == [0]
    assert _read(task, str(tmp_path), "test_matched").labels is None
    assert task.split_names(DEV) == ["dev_matched", "dev_mismatched"]


def test_qqp_leaves_cut_lines_out(tmp_path):
    head = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    _write(tmp_path, "train.tsv", f"{head}1\t2\t3\ta?\tb?\t1\n4\t5\t6\tcut?\n7\t8\t9\tc?\td?\t0\n")
    _write(tmp_path, "test.tsv", "id\tquestion1\tquestion2\n0\te?\tf?\n")
    files = TaskFiles(find_task("QQP"), str(tmp_path), TEXT_LABELS)
    assert files.read(TRAIN).labels == [1, 0]
    # Said once, however often the file is read.
    files.read(TRAIN)
    left_out = "left out 1 lines with missing or additional columns"
    assert files.notes == [f"{tmp_path}/train.tsv: {left_out}"]
    assert _read(find_task("QQP"), str(tmp_path), TEST).pairs == ["f?"]


def test_ax_is_a_test_set(tmp_path):
    _write(tmp_path, "diagnostic.tsv", "index\tsentence1\tsentence2\n0\tA.\tB.\n")
    assert _read(find_task("AX"), str(tmp_path), TEST).pairs == ["B."]


def test_a_single_file_is_split_the_same_way_each_time(tmp_path):
    rows = [f"{'spam' if i % 5 == 0 else 'ham'}\ttext {i}\n" for i in range(100)]
    _write(tmp_path, "SMSSpamCollection", "".join(rows))
    task = find_task("sms spam")
    parts = {name: _read(task, str(tmp_path), name) for name in (TRAIN, DEV, TEST)}
    assert {name: len(part) for name, part in parts.items()} == {TRAIN: 80, DEV: 10, TEST: 10}
    texts = [text for part in parts.values() for text in part.texts]
    assert sorted(texts) == sorted(f"text {i}" for i in range(100))
    assert _read(task, str(tmp_path), DEV) == parts[DEV]


def test_crowdflower_files_are_latin_1_with_old_line_ends(tmp_path):
    rows = [f'{i},national,partisan,policy,"caf\xe9, ""{i}"""' for i in range(20)]
    text = "\r".join(["_unit_id,audience,bias,message,text", *rows])
    _write(tmp_path, "political_social_media.csv", text, "latin-1")
    train = _read(find_task("political_audience"), str(tmp_path), TRAIN)
    assert len(train) == 16
    assert all(text.startswith('café, "') for text in train.texts)


def test_a_file_with_its_own_header_is_known_by_it(tmp_path):
    task = find_task("emotion")
    rows = [f"{i},worry,someone,text {i}" for i in range(20)]
    text = "\n".join(["tweet_id,sentiment,author,content", *rows])
    assert len(_read(task, _write(tmp_path, "text_emotion.csv", text), TRAIN)) == 16
    text = "\n".join(f"worry,text {i}" for i in range(20))
    assert len(_read(task, _write(tmp_path, "text_emotion.csv", text), TRAIN)) == 16


def test_rows_without_text_are_no_examples(tmp_path):
    rows = [f"ham\t{'' if i % 2 else 'x'}" for i in range(40)]
    _write(tmp_path, "SMSSpamCollection", "\n".join(rows))
    assert len(_read(find_task("sms_spam"), str(tmp_path), TRAIN)) == 16
    _write(tmp_path, "SMSSpamCollection", "ham\tx\n")
    with pytest.raises(UserError, match="too few"):
        _read(find_task("sms_spam"), str(tmp_path), TRAIN)


def test_labels_are_dropped_and_renamed(tmp_path):
    rows = ["tweet,existence,x", *["a,Y,1"] * 10, *["b,No,1"] * 10, *["c,N/A,1"] * 5]
    _write(tmp_path, "tweet_global_warming.csv", "\n".join(rows))
    task = find_task("global warming")
    found = collections.Counter(
        label for name in (TRAIN, DEV, TEST) for label in _read(task, str(tmp_path), name).labels
    )
    assert found == {0: 10, 1: 10}


@pytest.mark.parametrize(
    ("task", "name", "content", "told"),
    [
        ("CoLA", "train.tsv", b"a\t1\t\tx\nb\t1\tx\n", "train.tsv:2: 3 columns, expected 4"),
        ("CoLA", "train.tsv", b"a\t2\t\tx\n", "train.tsv:1: unknown label '2'; known are 0, 1"),
        ("CoLA", "train.tsv", b"", "train.tsv: the file is empty"),
        ("CoLA", "train.tsv", b"a\t1\t\tok\na\t1\t\t\xff\n", "train.tsv:2: not UTF-8"),
        ("CoLA", "dev.tsv", b"a\t1\t\tx\n", "expected train.tsv for CoLA"),
        ("SST-2", "train.tsv", b"sentence\tlabel\n", "no rows below the header"),
        ("SST-2", "train.tsv", b"text\tlabel\nx\t1\n", "no column 'sentence'"),
        ("STS-B", "train.tsv", b"sentence1\tsentence2\tscore\na\tb\thigh\n", "expected a number"),
        ("airline", "Tweets.csv", b'text,airline_sentiment\n"a,neutral', "Tweets.csv:2: the quote"),
        ("primary_emotions", "primary-plutchik-wheel-DFE.csv", b"sentence,emotion\na,Joy\n", "18"),
        ("20newsgroups", "20news-bydate.tar.gz", b"no archive", "not a readable archive"),
    ],
)
def test_wrong_files_are_told_with_their_line(tmp_path, task, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=told) as error:
        _read(find_task(task), str(tmp_path), TRAIN)
    assert "\n" not in str(error.value)


GLUE_ROWS = {
    "CoLA": ({TRAIN: 8551, DEV: 1043, TEST: 1063}, {0: 2528, 1: 6023}),
    "SST-2": ({TRAIN: 67349, DEV: 872, TEST: 1821}, {0: 29780, 1: 37569}),
    "MRPC": ({TRAIN: 3668, DEV: 408, TEST: 1725}, {0: 1194, 1: 2474}),
    "STS-B": ({TRAIN: 5749, DEV: 1500, TEST: 1379}, None),
    "RTE": ({TRAIN: 2490, DEV: 277, TEST: 3000}, {0: 1249, 1: 1241}),
    "WNLI": ({TRAIN: 635, DEV: 71, TEST: 146}, {0: 323, 1: 312}),
    "QNLI": ({DEV: 5463, TEST: 5463}, None),
}


@pytest.mark.parametrize("name", GLUE_ROWS)
def test_official_glue_files(data, name):
    rows, labels = GLUE_ROWS[name]
    for split, count in rows.items():
        examples = _read(find_task(name), str(data / "glue"), split)
        assert len(examples) == count
        if split == TRAIN and labels:
            assert collections.Counter(examples.labels) == labels


def test_unknown_tasks_are_told_with_the_nearest():
    with pytest.raises(UserError, match="did you mean CoLA"):
        find_task("COLLA")
    assert find_task("sst2") is find_task("SST-2")
    assert len(TASKS) == 28
