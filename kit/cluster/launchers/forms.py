"""How values of a launcher's fields are written: on a line, in TOML, in Python."""

from __future__ import annotations

import shlex
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Form:
    """How values of a type are written."""

    read: Callable[[str], object]  # the text on a line; raises ValueError
    is_right: Callable[[Any], bool]
    metavar: str
    on_line: str
    in_file: str
    in_code: str


def _plain(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _words(text: str) -> list[str]:
    return shlex.split(_plain(text))


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number")
    return int(text)


def _numbers(text: str) -> dict[str, int]:
    """Read how many tasks each host can hold.

    >>> _numbers("nodea:3,me@nodeb:2222:2")
    {'nodea': 3, 'me@nodeb:2222': 2}
    """
    result: dict[str, int] = {}
    for part in _plain(text).split(","):
        host, _, number = part.strip().rpartition(":")
        if not (host and number.isdecimal()):
            raise ValueError(f"{part!r} does not say how many tasks the host can hold")
        if host in result:
            raise ValueError(f"host {host!r} is given twice")
        result[host] = int(number)
    return result


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_number, value.values()))


def _are_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(map(_is_text, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


TEXT = Form(_plain, _is_text, "TEXT", "TEXT", '"TEXT"', '"TEXT"')
_FORMS: dict[object, Form] = {
    Mapping: Form(
        _numbers,
        _are_numbers,
        "HOST:N,...",
        "nodea:3,nodeb:2",
        '{"nodea" = 3, "nodeb" = 2}',
        '{"nodea": 3, "nodeb": 2}',
    ),
    Sequence: Form(
        _words, _are_texts, "WORDS", '"-x word"', '["-x", "word"]', '["-x", "word"]'
    ),
    int: Form(_number, _is_number, "N", "2", "2", "2"),
    str: TEXT,
}


def form_of(hint: Any) -> Form | None:
    """Return how values of a type are written, None for a type without a form.

    >>> form_of(int).metavar
    'N'
    """
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    for part in typing.get_args(hint) if is_union else (hint,):
        if part is not type(None):
            return _FORMS.get(typing.get_origin(part) or part)
    return None
