"""A base's vocabulary and its tokenizer."""

import collections
import dataclasses
import hashlib
import re

import tensorflow as tf
import tensorflow_text as tf_text

from adapter_bert_tf.errors import UserError, some
from adapter_bert_tf.files import MOST_OF_DESCRIPTION, read_text

# Far beyond a word's: see `_LONGEST_WORD`.
_LONGEST_TOKEN = 1000
# A vocabulary is taken for a cased one if at least this share of its tokens has capitals.
_CAPITALS_OF_CASED = 0.01


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokens of a base in the order of their ids, and whether text is lower-cased."""

    tokens: tuple[str, ...]
    lower_case: bool

    def index(self, token: str) -> int:
        """Returns the id of a token. Raises `UserError` if the vocabulary does not have it."""
        try:
            return self.tokens.index(token)
        except ValueError:
            raise UserError(
                f"the vocabulary has no {token}, so it is not a BERT vocabulary"
            ) from None

    def check_size(self, vocab_size: int, origin: str, may_be_padded: bool = False) -> None:
        """Refuses a vocabulary that does not have `vocab_size` tokens.

        Some of Hugging Face's embedding tables are padded: they have more rows than there are
        tokens, which `may_be_padded` allows.
        """
        size = len(self.tokens)
        if size > vocab_size or (size < vocab_size and not may_be_padded):
            raise UserError(
                f"{origin}: the vocabulary has {size} tokens, the configuration says {vocab_size}"
            )

    def describe(self) -> dict[str, object]:
        """Returns what a task pack stores to recognise the vocabulary."""
        digest = hashlib.sha256("\n".join(self.tokens).encode()).hexdigest()
        return {"size": len(self.tokens), "sha256": digest, "lower_case": self.lower_case}


def read_vocabulary(path: str, lower_case: bool | None = None) -> Vocabulary:
    """Reads a `vocab.txt`, which has one token per line.

    If `lower_case` is None, the tokens decide: a cased vocabulary has many capitals. An uncased one
    has them only in special tokens such as `[CLS]` and Chinese BERT's `<S>`.
    """
    content = read_text(path, MOST_OF_DESCRIPTION).rstrip()
    tokens = tuple(line.strip() for line in re.split(r"\r\n|\r|\n", content))
    if not any(tokens):
        raise UserError(f"{path}: the vocabulary is empty")
    for number, token in enumerate(tokens, 1):
        if len(token) > _LONGEST_TOKEN or "\0" in token:
            raise UserError(
                f"{path}: line {number}: expected a token of at most {_LONGEST_TOKEN:,} "
                "characters, without NUL"
            )
    if lower_case is None:
        capitals = sum(token != token.lower() for token in tokens if token[:1] not in "[<")
        lower_case = capitals < _CAPITALS_OF_CASED * len(tokens)
    return Vocabulary(tokens, lower_case)


# BERT's own tokenizer deletes control and format characters. tf-text treats them as spaces.
_DELETED = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x{9f}\p{Cf}\x{fffd}]"
_SPACES = r"[\s\p{Z}]"
_CHINESE = (
    r"[\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{20000}-\x{2a6df}"
    r"\x{2a700}-\x{2ceaf}\x{2f800}-\x{2fa1f}]"
)
_PUNCTUATION = r"[!-/:-@\[-`{-~\p{P}]"

# BERT's own tokenizer takes words of more characters than this for unknown. tf-text's limit is in
# bytes, so it gets one that no shorter word can reach, and `tokenize` applies this one.
_LONGEST_WORD = 200
_BYTES_IN_A_CHARACTER = 4
_PRIVATE_USE = range(0xE000, 0xF900)


class Tokenizer(tf.Module):
    """Turns text into the wordpiece ids of a vocabulary.

    Characters are classified as in Unicode 15.0 and lower-cased as in 13.0, which are the tables of
    RE2 and ICU in TensorFlow 2.20; Python 3.11, where the original program runs, has 14.0.

    Args:
      vocabulary: The base's vocabulary.

    Example:
      `Tokenizer(vocabulary).tokenize(["a text", "another"])`
    """

    def __init__(self, vocabulary: Vocabulary):
        super().__init__()
        self.vocabulary = vocabulary
        self.cls_id = vocabulary.index("[CLS]")
        self.sep_id = vocabulary.index("[SEP]")
        vocabulary.index("[UNK]")
        twice = [token for token, n in collections.Counter(vocabulary.tokens).items() if n > 1]
        if twice:
            raise UserError(f"some tokens are in the vocabulary twice: {some(twice)}")
        # A character that no token starts with, so that it is tokenized as unknown.
        starts = {token[:1] for token in vocabulary.tokens}
        self._unknown_word = next(c for c in map(chr, _PRIVATE_USE) if c not in starts)
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            list(vocabulary.tokens),
            max_bytes_per_word=_LONGEST_WORD * _BYTES_IN_A_CHARACTER,
            token_out_type=tf.int32,
        )

    def split(self, texts: tf.Tensor) -> tf.Tensor:
        """Cleans texts, lower-cases them if the base does, and puts spaces between words."""
        texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="ignore")
        texts = tf.strings.regex_replace(texts, _DELETED, "")
        texts = tf.strings.regex_replace(texts, _SPACES, " ")
        texts = tf.strings.regex_replace(texts, _CHINESE, r" \0 ")
        if self.vocabulary.lower_case:
            texts = tf_text.normalize_utf8(tf.strings.lower(texts, "utf-8"), "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        return tf.strings.regex_replace(texts, _PUNCTUATION, r" \0 ")

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of each text, `[texts, (tokens)]`."""
        return self.tokenize_split(self.split(texts))

    def tokenize_split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of texts that `split` has returned, `[texts, (tokens)]`."""
        too_long = rf"[^ ]{{{_LONGEST_WORD + 1},}}"
        words = tf.strings.regex_replace(texts, too_long, self._unknown_word)
        return self._wordpiece.tokenize(words)
