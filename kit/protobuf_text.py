"""Protobuf's text form: quote strings to write, and read a text piece by piece.

Pure: no I/O and no protobuf. The caller knows the message and asks for its fields one
after the other, so there is no tree, no recursion, and no more memory than the text:

    reader = TextReader('name: "ps" tasks { value: "a:1" }', "a JobDef")
    reader.field("name", "tasks")   # 'name'
    reader.string()                 # 'ps'

So the caller decides how deeply messages may be nested; the one who opens the file
decides how large a text may be (`kit.regular_file`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", '"': '"', "'": "'", "\\": "\\"}


def quoted(text: str) -> str:
    r"""Return a string as protobuf prints it.

    >>> print(quoted('a "b"\n'))
    "a \"b\"\n"
    """
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if letter in _ESCAPES:
        return "\\" + _ESCAPES[letter]
    if letter < " " or letter == "\x7f":
        return f"\\{ord(letter):03o}"
    return letter


_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?f?(?![\w.]))
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>[][{}<>:;,-])""",
    re.VERBOSE | re.ASCII,
)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_ENDLESS: Final = ("inf", "infinity", "nan")
# Escapes count bytes of UTF-8, not letters: other printers write "\303\251" for "é".
_BYTE: Final = re.compile(
    rb"\\(?:([0-3]?[0-7]{1,2})|[xX]([0-9a-fA-F]{1,2})|(.))", re.DOTALL
)
_LETTERS: Final = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


class TextReader:
    """Reads the tokens of a text one after the other.

    `what` names the message in errors. All methods raise `ValueError`, with the line,
    if something else comes next.
    """

    def __init__(self, text: str, what: str) -> None:
        # One at a time: a list of tokens can be many times as large as the text.
        self._rest = _scan(text, what)
        self._next = next(self._rest)

    @property
    def is_at_end(self) -> bool:
        """Whether the whole text has been read."""
        return self._next.kind == "end"

    def skip(self, marks: str) -> bool:
        """Skip one of some marks if it is next; return whether it was."""
        is_there = self._next.kind == "mark" and self._next.text in marks
        if is_there:
            self._next = next(self._rest)
        return is_there

    def field(self, *names: str) -> str:
        """Read the name of a field, one of those that are `names`."""
        if self._next.text not in names:
            raise self._fail(" or ".join(names))
        return self._take("word", " or ".join(names))

    def block(self, *once: str, repeated: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield the fields of a nested message by name; the caller reads the values.

        The fields `once` may come once.
        """
        self.skip(":")
        closing = ">" if self._next.text == "<" else "}"
        if not self.skip("{<"):
            raise self._fail("'{'")
        awaited = [*once, *repeated]
        while not self.skip(closing):
            name = self.field(*awaited, closing)
            if name in once:
                awaited.remove(name)
            yield name
            self.skip(",;")

    def colon(self) -> None:
        """Read the colon before a value."""
        if not self.skip(":"):
            raise self._fail("':'")

    def values(self, read: Callable[[], T]) -> list[T]:
        """Read one value with `read`, or several in brackets; return a list."""
        if not self.skip("["):
            return [read()]
        result: list[T] = []
        while not self.skip("]"):
            if result and not self.skip(","):
                raise self._fail("',' or ']'")
            result.append(read())
        return result

    def integer(self) -> int:
        """Read a decimal integer."""
        if _INTEGER.fullmatch(self._next.text) is None:
            raise self._fail("a decimal number")
        return int(self._take("number", "a decimal number"))

    def number(self) -> float:
        """Read any number, including `inf` and `nan`."""
        if self._next.kind == "number":
            return float(self._take("number", "a number").rstrip("f"))
        sign = -1.0 if self.skip("-") else 1.0
        if self._next.text.lower() not in _ENDLESS:
            raise self._fail("a number")
        return sign * float(self._take("word", "a number"))

    def string(self) -> str:
        """Read a string; adjacent strings are one, as in C."""
        line, parts = self._next.line, [self._take("string", "a quoted string")]
        while self._next.kind == "string":
            parts.append(self._take("string", "a quoted string"))
        raw = b"".join(_BYTE.sub(_unescaped, part[1:-1].encode()) for part in parts)
        try:
            return raw.decode()
        except UnicodeDecodeError as exc:
            raise ValueError(
                f"the string on line {line} must be UTF-8; {raw!r} is not: {exc}."
            ) from exc

    def _take(self, kind: str, wanted: str) -> str:
        if self._next.kind != kind:
            raise self._fail(wanted)
        taken, self._next = self._next, next(self._rest)
        return taken.text

    def _fail(self, wanted: str) -> ValueError:
        text = repr(self._next.text) if self._next.text else "the end of the text"
        return ValueError(f"line {self._next.line}: expected {wanted}, found {text}.")


def _scan(text: str, what: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            rest = text[at : at + 40].split("\n", 1)[0]
            raise ValueError(f"line {line}: no field of {what} reads {rest!r}.")
        if match.lastgroup != "space":
            yield _Token(str(match.lastgroup), match.group(), line)
        line += match.group().count("\n")
        at = match.end()
    while True:
        yield _Token("end", "", line)


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, hexadecimal, letter = match.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) if octal else int(hexadecimal, 16)])
    # An unknown escape stays as it is, as in protobuf.
    return bytes([_LETTERS[letter[0]]]) if letter[0] in _LETTERS else match[0]
