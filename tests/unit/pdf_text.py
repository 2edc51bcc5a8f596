"""The words of a PDF as a reader finds them in it: by the map from its glyphs to characters that each font carries."""

import re
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj\b(.*?)\bendobj", re.DOTALL)
_LENGTH, _BEGINS = re.compile(rb"/Length (\d+)\b"), re.compile(rb"stream\r?\n")
_SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|\((?:\\.|[^\\()])*\)|<([0-9A-Fa-f]+)>\s*Tj", re.DOTALL)


def text_of(file: bytes) -> str:
    """Everything that is shown, page after page."""
    objects = {int(found[1]): found[2] for found in _OBJECT.finditer(file)}
    fonts: dict[bytes, dict[int, str]] = {}
    for body in objects.values():
        for name, number in re.findall(rb"/(F\d+) (\d+) 0 R", body):
            fonts[name] = _map_of(objects, objects[int(number)])
    pages = [body for body in objects.values() if re.search(rb"/Type /Page\b", body)]
    contents = [int(found[1]) for page in pages if (found := re.search(rb"/Contents (\d+) 0 R", page))]
    return "\n".join(_words(_plain(objects[number]), fonts) for number in contents)


def _plain(body: bytes) -> bytes:
    length, begins = _LENGTH.search(body), _BEGINS.search(body)
    assert length and begins, body[:80]
    bytes_of = body[begins.end() : begins.end() + int(length[1])]
    return zlib.decompress(bytes_of) if b"/FlateDecode" in body[: begins.start()] else bytes_of


def _map_of(objects: dict[int, bytes], font: bytes) -> dict[int, str]:
    found = re.search(rb"/ToUnicode (\d+) 0 R", font)
    if not found:
        return {}
    table = _plain(objects[int(found[1])]).decode("latin-1")
    return {
        int(glyph, 16): bytes.fromhex(text).decode("utf-16-be")
        for glyph, text in re.findall(r"<([0-9A-Fa-f]{4})> <([0-9A-Fa-f]+)>", table)
    }


def _words(content: bytes, fonts: dict[bytes, dict[int, str]]) -> str:
    font: dict[int, str] = {}
    said: list[str] = []
    for found in _SHOWN.finditer(content):
        if found[1]:
            font = fonts[found[1]]
        else:
            codes = _escaped(found[0][1:-1]) if found[0].startswith(b"(") else bytes.fromhex(found[2].decode())
            said += [font.get(codes[at] << 8 | codes[at + 1], "") for at in range(0, len(codes) - 1, 2)]
    return "".join(said)


_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def _escaped(text: bytes) -> bytes:
    return re.sub(rb"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)
