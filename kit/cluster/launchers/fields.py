"""The launchers there are, their fields, and how values of these are written.

The options of a `%%cluster` line and the tables of a site's file are these fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import shlex
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.cluster.launchers.launcher import Launcher

# --------------------------------------------------------------------------------------
# How the values of a type are written: on a line, and in TOML.


@dataclass(frozen=True)
class Form:
    """How values of a type are written."""

    read: Callable[[str], object]  # what stands on a line; raises ValueError
    is_right: Callable[[Any], bool]  # for what a file holds
    metavar: str
    on_line: str
    in_file: str


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
    found: dict[str, int] = {}
    for part in _plain(text).split(","):
        host, _, number = part.strip().rpartition(":")
        if not (host and number.isdecimal()):
            raise ValueError(f"{part!r} does not say how many tasks the host can hold")
        if host in found:
            raise ValueError(f"host {host!r} is given twice")
        found[host] = int(number)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_TEXT = Form(_plain, _is_text, "TEXT", "TEXT", '"TEXT"')
_FORMS: dict[object, Form] = {
    Mapping: Form(
        _numbers,
        _are_numbers,
        "HOST:N,...",
        "nodea:3,nodeb:2",
        '{"nodea" = 3, "nodeb" = 2}',
    ),
    Sequence: Form(_words, _are_texts, "WORDS", '"-x word"', '["-x", "word"]'),
    int: Form(_number, _is_number, "N", "2", "2"),
    str: _TEXT,
}


def _form(hint: Any) -> Form:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    for one in typing.get_args(hint) if is_union else (hint,):
        if one is not type(None):
            return _FORMS.get(typing.get_origin(one) or one, _TEXT)
    return _TEXT


# --------------------------------------------------------------------------------------
# The launchers there are, and their fields.


COMMON = frozenset(field.name for field in dataclasses.fields(Launcher))


def known() -> dict[str, type[Launcher]]:
    """Return the launchers by the names that a line gives them.

    >>> known()["ssh"].__name__
    'SSH'
    """
    classes = [
        one for one in vars(sys.modules[__package__]).values() if isinstance(one, type)
    ]
    ours = [one for one in classes if issubclass(one, Launcher) and one is not Launcher]
    return dict(sorted((one.__name__.lower(), one) for one in ours))


def fields(kind: type[Launcher]) -> dict[str, Form]:
    """Return what can be given to a launcher, by name: its own, then those of all."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    names.sort(key=COMMON.__contains__)
    return {name: _form(hints[name]) for name in names}


def nearest(word: str, known: list[str]) -> str:
    """Return a hint at the known word that looks most like `word`, or nothing.

    >>> nearest("--wroker", ["--ps", "--worker"])
    ' Did you mean --worker?'
    >>> nearest("--colour", ["--ps"])
    ''
    """
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
