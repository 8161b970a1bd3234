"""The 21 choices that make a baseline model, and what is tried for each. No TensorFlow here.

The space is the paper's (Houlsby et al., ICML 2019, supplement). What it leaves open and we chose
is told where it is built: `model.py`, `words.py` and `train.py`.
"""

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adapter_bert_tf.baseline.modules import BERT, GLOVE, check_module, lasting_name
from adapter_bert_tf.errors import UserError

ACTIVATIONS = ("relu", "relu6", "leaky_relu", "swish", "sigmoid", "tanh")
NORMS = ("none", "batch", "layer")
RATES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5)
REGULARIZATIONS = (0.0, 1e-4, 1e-3, 1e-2)
# What needs no download: word vectors, and a frozen BERT in the place of a sentence encoder.
EMBEDDED = (GLOVE, f"{BERT}minilm")


@dataclasses.dataclass(frozen=True)
class Range:
    """All numbers from `low` to `high`: whole ones, if both are."""

    low: float
    high: float

    def __contains__(self, value: Any) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low}..{self.high}"


Values = tuple[Any, ...] | Range
Space = Mapping[str, Values]


def _choice(values: Values, help: str) -> Any:
    default = values.low if isinstance(values, Range) else values[0]
    return dataclasses.field(default=default, metadata={"values": values, "help": help})


@dataclasses.dataclass(frozen=True)
class Design:
    """A baseline model and its training: a value for each choice, in the order of the paper."""

    module: str = _choice(EMBEDDED, "text module")
    fine_tune: bool = _choice((False, True), "train the module's embeddings too")
    lower_case: bool = _choice((True, False), "lower-case the text")
    letters_only: bool = _choice((False, True), "drop all but letters and digits")
    convolution: bool = _choice((False, True), "a convolution over words")
    convolution_activation: str = _choice(ACTIVATIONS, "its activation")
    convolution_batch_norm: bool = _choice((False, True), "its batch norm")
    longest_ngram: int = _choice((2, 3), "words that a filter reads")
    convolution_dropout: float = _choice(Range(0.0, 0.4), "dropout behind it")
    filters: int = _choice(Range(50, 200), "its filters")
    embedding_dropout: float = _choice(Range(0.0, 0.4), "dropout on embeddings")
    hidden_layers: int = _choice((0, 1, 2, 3, 5), "hidden layers")
    hidden_size: int = _choice((64, 128, 256), "their size")
    hidden_activation: str = _choice(ACTIVATIONS, "their activation")
    hidden_norm: str = _choice(NORMS, "their normalization")
    hidden_dropout: float = _choice((0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), "dropout behind them")
    deep_rate: float = _choice(RATES, "learning rate of the deep part")
    deep_regularization: float = _choice(REGULARIZATIONS, "its regularization")
    wide_rate: float = _choice(RATES, "learning rate of the wide part")
    wide_regularization: float = _choice(REGULARIZATIONS, "its regularization")
    samples: int = _choice((100_000, 200_000, 500_000, 1_000_000, 2_000_000), "training samples")

    def __post_init__(self):
        for name, value in vars(self).items():
            object.__setattr__(self, name, _check(name, value))
        if self.fine_tune and self.module.startswith(BERT):
            # It is what adapters are compared with, so it is never trained here.
            object.__setattr__(self, "fine_tune", False)


_FIELDS = {field.name: field for field in dataclasses.fields(Design)}
_TYPES = typing.get_type_hints(Design)
SPACE: Space = {name: field.metadata["values"] for name, field in _FIELDS.items()}
_TRUE, _FALSE = ("yes", "true", "1"), ("no", "false", "0")


def _check(name: str, value: Any) -> Any:
    """Returns a value of a choice in its type; refuses one that the space does not have."""
    kind = _TYPES[name]
    accepted = (int, float) if kind is float else kind
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted):
        raise UserError(f"{name}={value!r}: expected {_expected(name)}")
    # Any text module may be named, not only those that are tried by default.
    if name != "module" and value not in SPACE[name]:
        raise UserError(f"{name}={value}: expected {_expected(name)}")
    return kind(value)


def _expected(name: str) -> str:
    values = SPACE[name]
    if _TYPES[name] is bool:
        return "yes or no"
    return str(values) if isinstance(values, Range) else f"one of {', '.join(map(str, values))}"


def narrow(space: Space, given: Iterable[str]) -> Space:
    """Returns the space with fewer values for some choices.

    Args:
      space: The space.
      given: Texts such as `hidden_layers=0,1 filters=50..100`.
    """
    narrowed: dict[str, Values] = dict(space)
    for part in (part for text in given for part in re.split(r"[\s;]+", text.strip()) if part):
        name, equals, values = part.partition("=")
        if not equals or name not in space:
            known = ", ".join(space)
            raise UserError(f"--space={part}: expected CHOICE=VALUES, with one of {known}")
        try:
            narrowed[name] = _parse(name, values)
        except UserError as error:
            raise UserError(f"--space: {error}") from None
    check_modules(narrowed)
    return narrowed


def check_modules(space: Space) -> None:
    """Refuses text modules of a space that are not there."""
    for module in typing.cast(Sequence, space["module"]):
        check_module(module)


def _parse(name: str, text: str) -> Values:
    low, dots, high = text.partition("..")
    if dots and isinstance(SPACE[name], Range):
        found = Range(_parse_value(name, low), _parse_value(name, high))
        if found.low > found.high:
            raise UserError(f"{name}={text}: expected the lower number first")
        return found
    return tuple(dict.fromkeys(_parse_value(name, each) for each in text.split(",")))


def _parse_value(name: str, text: str) -> Any:
    kind = _TYPES[name]
    value: Any = text
    if kind is bool:
        known = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
        value = known.get(text.lower(), text)
    elif kind is not str:
        try:
            number = float(text)
        except ValueError:
            raise UserError(f"{name}={text}: expected {_expected(name)}") from None
        value = int(number) if kind is int and number.is_integer() else number
    elif not text:
        raise UserError(f"{name}: expected {_expected(name)}")
    elif name == "module":
        # Packs are used from other folders, too.
        value = lasting_name(text)
    return _check(name, value)


def describe(space: Space) -> list[str]:
    """Returns a line for each choice: what it is and what is tried."""
    return [
        f"{name:24}{values if isinstance(values, Range) else ', '.join(map(_shown, values))}"
        for name, values in space.items()
    ]


def _shown(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
