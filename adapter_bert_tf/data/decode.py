"""Turns the bytes of a text file into text, in whatever encoding the file is written."""

import codecs
import re

from adapter_bert_tf.errors import UserError

# UTF-32's little-endian mark starts with that of UTF-16, so it comes first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ARCHIVES = {
    b"\x1f\x8b": "is compressed with gzip; unpack it first",
    b"PK\x03\x04": "is an Excel workbook or a zip archive; save it as CSV or unpack it first",
}
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SAMPLE = 2**16


def decode(path: str, content: bytes, encoding: str | None) -> tuple[str, list[str]]:
    """Decodes a file.

    Args:
      path: The file's name, for messages.
      content: Its bytes.
      encoding: The encoding that the user gave, or None to recognise it.

    Returns:
      The text without a byte-order mark, and what the user should be told about the encoding.
    """
    for start, what in _ARCHIVES.items():
        if content.startswith(start):
            raise UserError(f"{path}: {what}")
    notes: list[str] = []
    if encoding is None:
        encoding = _recognise(path, content)
        if encoding != "utf-8":
            notes.append(f"read as {encoding.upper()}")
    text = _decode(path, content, encoding).removeprefix("\N{BYTE ORDER MARK}")
    if not text.strip():
        raise UserError(f"{path}: the file is empty")
    return text, notes


def line_of(text: str) -> int:
    """Returns the number of the line on which `text` ends."""
    return len(re.findall(r"\r\n|\r|\n", text)) + 1


def _recognise(path: str, content: bytes) -> str:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding
    # The first two characters of a table are nearly always ASCII: in UTF-16, every other byte
    # is NUL.
    nul = [byte == 0 for byte in content[:4]]
    if nul == [False, True, False, True]:
        return "utf-16-le"
    if nul == [True, False, True, False]:
        return "utf-16-be"
    try:
        content.decode("utf-8")
        return "utf-8"
    except UnicodeDecodeError as error:
        return _recognise_8_bit(path, content, error)


def _recognise_8_bit(path: str, content: bytes, error: UnicodeDecodeError) -> str:
    if _CONTROL.search(content[:_SAMPLE]):
        raise UserError(f"{path}: is not a text file")
    # In Latin-1 text hardly any two bytes happen to be valid UTF-8. So a file with mostly valid
    # ones is damaged UTF-8, and reading it as Latin-1 would spoil all other lines as well.
    lenient = content.decode("utf-8", "replace")
    invalid = lenient.count("\N{REPLACEMENT CHARACTER}")
    not_ascii = len(lenient) - len(lenient.encode("ascii", "ignore"))
    if not_ascii > 2 * invalid:
        raise _undecodable(path, content, "utf-8", error.start)
    try:
        content.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"


def _decode(path: str, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise _undecodable(path, content, encoding, error.start) from None
    except (LookupError, ValueError):
        raise UserError(f"{path}: encoding {encoding!r} is unknown; try utf-8") from None


def _undecodable(path: str, content: bytes, encoding: str, byte: int) -> UserError:
    line = line_of(content[:byte].decode(encoding, "replace"))
    return UserError(f"{path}:{line}: not {encoding.upper()} at byte {byte}")
