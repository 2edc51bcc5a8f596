"""From bytes to text: which encoding, and what is no text at all."""

import re
from dataclasses import dataclass

from runtime.tools.disclosure.refusal import DisclosureRefused

MAX_BYTES = 5 * 1024 * 1024
MAX_LINES = 20_000
SAVE_AS_CSV = 'Open it and save the holdings sheet as "CSV UTF-8".'

SIGNATURES = (
    (b"PK\x03\x04", f"This is an Excel workbook or a zip archive, not CSV. {SAVE_AS_CSV}"),
    (b"\xd0\xcf\x11\xe0", f"This is an old Excel workbook, not CSV. {SAVE_AS_CSV}"),
    (b"%PDF", "This is a PDF document, not CSV. Take the CSV file that the fund offers beside it."),
    (b"\x1f\x8b", "This is a compressed file, not CSV. Unpack it first."),
    (b"\xff\xfe\x00\x00", 'This is UTF-32 text. Save the file as "CSV UTF-8".'),
    (b"\x00\x00\xfe\xff", 'This is UTF-32 text. Save the file as "CSV UTF-8".'),
)
MARKUP = re.compile(r"\s*<(!doctype|html|\?xml|table)", re.IGNORECASE)
JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[\[{"\]])')
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Text:
    """The decoded file. `encoding` is the name a person knows it by; `notes` say what was concluded, not read."""

    content: str
    encoding: str
    notes: tuple[str, ...] = ()


def decode(data: bytes) -> Text:
    """Decode an uploaded file. A byte-order mark decides; else UTF-8; else Windows-1252, which is said in a note.

    Raises DisclosureRefused for files that are empty, too large, binary, damaged or of an encoding we can't tell.
    """
    _check_bytes(data)
    text = _decoded(data)
    if not text.content.strip("\ufeff \t\r\n"):
        raise DisclosureRefused("The file is empty.")
    if JSON.match(text.content):
        raise DisclosureRefused("This looks like JSON, not CSV. Download the CSV file, or export the holdings as CSV.")
    if MARKUP.match(text.content):
        raise DisclosureRefused("This is a web page or XML, not CSV. Download the CSV file itself.")
    control = CONTROL.search(text.content)
    if control:
        line = text.content.count("\n", 0, control.start()) + 1
        raise DisclosureRefused(f"Holds the control character U+{ord(control[0]):04X}. The file is damaged.", line)
    lines = len(text.content.splitlines())
    if lines > MAX_LINES:
        raise DisclosureRefused(f"The file has {lines:,} lines; at most {MAX_LINES:,} are read.")
    return text


def _check_bytes(data: bytes) -> None:
    if not data.strip():
        raise DisclosureRefused("The file is empty.")
    if len(data) > MAX_BYTES:
        raise DisclosureRefused(f"The file has {len(data):,} bytes; at most {MAX_BYTES:,} (5 MiB) are read.")
    for signature, reason in SIGNATURES:
        if data.startswith(signature):
            raise DisclosureRefused(reason)


def _decoded(data: bytes) -> Text:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Text(_strictly(data, "utf-16", "UTF-16"), "UTF-16")
    if data.startswith(b"\xef\xbb\xbf"):
        return Text(_strictly(data, "utf-8-sig", "UTF-8"), "UTF-8 with a byte-order mark")
    nul = data.find(b"\x00")
    if nul >= 0:
        reason = 'Holds a NUL byte: a binary file, or UTF-16 without its mark. Save it as "CSV UTF-8".'
        raise DisclosureRefused(reason, _line_at(data, nul))
    try:
        return Text(data.decode("utf-8"), "UTF-8")
    except UnicodeDecodeError as error:
        return _windows_1252(data, error.start)


def _windows_1252(data: bytes, offset: int) -> Text:
    """Single bytes above 0x7F are Windows-1252 only if no part of the file is valid multi-byte UTF-8."""
    line = _line_at(data, offset)
    lenient = data.decode("utf-8", "surrogateescape")
    if any(char > "\x7f" and not "\udc80" <= char <= "\udcff" for char in lenient):
        raise DisclosureRefused("Mixes UTF-8 with other bytes, so its encoding can't be told. Save it as UTF-8.", line)
    content = _strictly(data, "cp1252", "UTF-8 or Windows-1252")
    note = f"The file is not UTF-8 (line {line}); it was read as Windows-1252. Check the names with accents."
    return Text(content, "Windows-1252", (note,))


def _strictly(data: bytes, codec: str, name: str) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        reason = f'Byte {error.start + 1} is not valid {name}. Save the file as "CSV UTF-8".'
        raise DisclosureRefused(reason, _line_at(data, error.start)) from error


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
