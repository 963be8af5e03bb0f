"""Read the text form of a message that has values and lists of values.

Pure. The form that is written is `str(message)`; what people write by hand may look
otherwise, and means the same:

    model_checkpoint_path: 'model.ckpt-' '20';      # the newest
    all_model_checkpoint_paths: ["model.ckpt-10", "model.ckpt-20"]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeVar

from kit.tf1.graph.message import CheckedMessage

M = TypeVar("M", bound=CheckedMessage)

_TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<name>[A-Za-z_]\w*)
      | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?f?)
      | (?P<sign>[-:,;\[\]])""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_SIGNS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SIGNS |= {one: one for one in "'\"\\?"}
_ENDLESS = ("inf", "infinity", "nan")


def parsed(kind: type[M], text: str) -> M:
    """Return the message of a class that a text describes.

    A field that has one value and is given two has the last. Raises `ValueError` for
    what is not a field of it, and for anything that is not a value of a field.
    """
    reader = _Reader(text)
    held: dict[str, Any] = {}
    while not reader.is_at_end:
        name = reader.take("name")
        if name not in kind.FIELDS:
            raise ValueError(f"{name!r} is not a field of a {kind.__name__}.")
        reader.take("sign", ":")
        of_field = kind.FIELDS[name]
        if isinstance(of_field, list):
            held.setdefault(name, []).extend(_values(reader, of_field[0]))
        else:
            held[name] = _value(reader, of_field)
        reader.skip(",;")
    return kind(**held)


class _Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str) -> None:
        # One at a time: a text of nothing but signs would become a list of its size.
        self._tokens = _tokens(text)
        self._next = next(self._tokens, None)

    @property
    def is_at_end(self) -> bool:
        return self._next is None

    def is_next(self, kind: str, text: str | None = None) -> bool:
        return self._next is not None and (
            self._next[0] == kind and text in (None, self._next[1])
        )

    def take(self, kind: str, text: str | None = None) -> str:
        if self._next is None or not self.is_next(kind, text):
            found = self._next[1] if self._next else "the end"
            raise ValueError(f"there is {found!r} where a {text or kind} should be.")
        taken = self._next[1]
        self._next = next(self._tokens, None)
        return taken

    def skip(self, signs: str) -> bool:
        """Pass over one of some signs if it is next; returns whether it was."""
        if self._next is not None and self._next[1] in signs:
            self._next = next(self._tokens, None)
            return True
        return False


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"{text[place : place + 40]!r} cannot be read.")
        if found.lastgroup != "blank":
            yield found.lastgroup or "", found[0]
        place = found.end()


def _values(reader: _Reader, kind: Any) -> list[Any]:
    if not reader.skip("["):
        return [_value(reader, kind)]
    found: list[Any] = []
    while not reader.is_next("sign", "]"):
        if found:
            reader.take("sign", ",")
        found.append(_value(reader, kind))
    reader.take("sign", "]")
    return found


def _value(reader: _Reader, kind: Any) -> Any:
    if kind is not str:
        return _number(reader)
    found = _unquoted(reader.take("text"))
    while reader.is_next("text"):  # texts that stand beside each other are one
        found += _unquoted(reader.take("text"))
    return found


def _number(reader: _Reader) -> float:
    sign = -1.0 if reader.skip("-") else 1.0
    if reader.is_next("name"):
        name = reader.take("name")
        if name.lower() not in _ENDLESS:
            raise ValueError(f"{name!r} is not a number.")
        return sign * float(name)
    return sign * float(reader.take("number").rstrip("f"))


def _unquoted(token: str) -> str:
    r"""Return what a text in quotes stands for; bytes that are escaped are UTF-8.

    >>> _unquoted(r"'a\041\303\244'")
    'a!ä'
    """
    data, place, text = bytearray(), 0, token[1:-1]
    for found in _ESCAPE.finditer(text):
        data += text[place : found.start()].encode()
        octal, hexadecimal, sign = found.groups()
        if sign is None:
            data.append(int(octal, 8) & 255 if octal else int(hexadecimal, 16))
        else:
            data += _SIGNS.get(sign, f"\\{sign}").encode()
        place = found.end()
    data += text[place:].encode()
    return data.decode()
