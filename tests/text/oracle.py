"""The original's tokenizer, as its behaviour is described, one character at a time."""

import unicodedata

_CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def _clean(character: str) -> str:
    category = unicodedata.category(character)
    if character in " \t\n\r" or category == "Zs":
        return " "
    if character in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    if any(low <= ord(character) <= high for low, high in _CHINESE):
        return f" {character} "
    return character


def _is_punctuation(character: str) -> bool:
    ascii_symbol = 33 <= ord(character) <= 126 and not character.isalnum()
    return ascii_symbol or unicodedata.category(character).startswith("P")


def words(text: str, lower_case: bool) -> list[str]:
    found = []
    for word in "".join(map(_clean, text)).split():
        if lower_case:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        found += "".join(f" {c} " if _is_punctuation(c) else c for c in word).split()
    return found


def wordpieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    if len(word) > 200:
        return [vocabulary["[UNK]"]]
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocabulary:
                pieces.append(vocabulary[piece])
                start = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return pieces


def tokenize(text: str, vocabulary: dict[str, int], lower_case: bool) -> list[int]:
    return [p for word in words(text, lower_case) for p in wordpieces(word, vocabulary)]


def cut(a: list[int], b: list[int], room: int) -> tuple[list[int], list[int]]:
    """Takes tokens off the longer one, one at a time; on a tie off b."""
    a, b = list(a), list(b)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    return a, b
