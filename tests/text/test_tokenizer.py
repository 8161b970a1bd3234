import random
import unicodedata

import pytest
import tensorflow as tf

from adapter_bert_tf import UserError
from adapter_bert_tf.text.tokenizer import Tokenizer, Vocabulary, read_vocabulary
from tests.text import oracle

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def _vocabulary(lower_case: bool) -> Vocabulary:
    """Every letter, alone and inside a word, so that no difference hides behind [UNK]."""
    letters = sorted(
        {c for c in map(chr, range(0x21, 0x30000)) if unicodedata.category(c)[0] in "LMNPS"}
    )
    pieces = [f"{prefix}{c}" for c in letters for prefix in ("", "##")]
    return Vocabulary((*SPECIAL, *pieces, "the", "word"), lower_case)


@pytest.fixture(scope="module", params=[True, False], ids=["lower", "cased"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer(_vocabulary(request.param))


def _check(tokenizer: Tokenizer, texts: list[str]) -> None:
    vocabulary = {token: i for i, token in enumerate(tokenizer.vocabulary.tokens)}
    found = tokenizer.tokenize(tf.constant([text.encode() for text in texts])).to_list()
    for text, ids in zip(texts, found, strict=True):
        expected = oracle.tokenize(text, vocabulary, tokenizer.vocabulary.lower_case)
        assert ids == expected, ascii(text)


def test_every_character_is_treated_as_the_original_does(tokenizer):
    # Python's Unicode and TensorFlow's are of different versions: what is old is in both.
    old = unicodedata.ucd_3_2_0
    known = [
        c
        for c in map(chr, range(0x30000))
        if old.category(c) == unicodedata.category(c) and old.category(c) not in ("Cn", "Cs")
    ]
    _check(tokenizer, [f"ab{c}cd {c}x{c}" for c in known])


def test_hostile_mixtures_are_treated_as_the_original_does(tokenizer):
    generator = random.Random(3)
    hostile = "ΣσςİıßſÅẞǅﬀΩ\u0323\u0308\u0345\u200d\u00ad\u2028\x00\ufffd\ufeff' .·中한a1-"
    texts = [
        "".join(generator.choice(hostile) for _ in range(generator.randrange(1, 40)))
        for _ in range(3000)
    ]
    _check(tokenizer, texts)


def test_long_words_count_characters(tokenizer):
    words = [c * n for c in "aü中" for n in (199, 200, 201, 1000)]
    _check(tokenizer, [*words, f"the {'a' * 201}. word", "words " * 300])


def test_empty_and_invalid_texts_have_no_tokens(tokenizer):
    found = tokenizer.tokenize(tf.constant([b"", b"  \t", b"\xff\xfe", b"a\xffb"])).to_list()
    assert found[:3] == [[], [], []]
    assert len(found[3]) == 2


def test_works_in_a_graph(tokenizer):
    call = tf.function(tokenizer.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    assert call(tf.constant(["the words"])).to_list() == tokenizer.tokenize(["the words"]).to_list()


def test_a_vocabulary_without_special_tokens_is_told():
    with pytest.raises(UserError, match="CLS"):
        Tokenizer(Vocabulary(("a", "b"), True))
    with pytest.raises(UserError, match="twice: a"):
        Tokenizer(Vocabulary((*SPECIAL, "a", "a"), True))


@pytest.mark.parametrize(
    ("pattern", "known", "later"),
    [
        # Marks and punctuation that came with Unicode 15.0, and with 16.0.
        (r"\p{Mn}", "\U00011f00\U00010efd\u0ece", "\u0897\U00011f5a"),
        (r"\p{P}", "\U00011f43\U00011b00", "\u1b4e\u1b7f"),
        (r"\p{Cf}", "\U00013439", ""),
    ],
)
def test_classes_of_characters_are_those_of_unicode_15(pattern, known, later):
    for characters, expected in ((known, True), (later, False)):
        found = tf.strings.regex_full_match([c.encode() for c in characters], pattern)
        assert found.numpy().tolist() == [expected] * len(characters)


def test_lower_case_is_that_of_unicode_13():
    # Capitals that came with Unicode 12.0, 13.0 and 14.0.
    lower = tf.strings.lower([c.encode() for c in "\ua7c2\ua7c7\ua7f5\ua7c0\u2c2f"], "utf-8")
    found = [each.decode() for each in lower.numpy()]
    assert found == ["\ua7c3", "\ua7c8", "\ua7f6", "\ua7c0", "\u2c2f"]


@pytest.mark.parametrize("token", ["\0", "y" * 300_000])
def test_a_token_that_none_can_be_is_told_by_its_line(tmp_path, token):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*SPECIAL, token, "a"]))
    with pytest.raises(UserError, match="vocab.txt: line 5: expected a token of at most") as error:
        read_vocabulary(str(path))
    assert len(str(error.value)) < 300
