"""The known launchers and their fields.

The options of a `%%cluster` line and the tables of a site's file are these fields.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
import typing

from kit.cluster.launchers.forms import TEXT, Form, form_of
from kit.cluster.launchers.launcher import Launcher

COMMON = frozenset(field.name for field in dataclasses.fields(Launcher))


def classes() -> dict[str, type[Launcher]]:
    """Return the launchers by the names that a `%%cluster` line uses.

    >>> classes()["ssh"].__name__
    'SSH'
    """
    classes = [
        kind
        for kind in vars(sys.modules[__package__]).values()
        if isinstance(kind, type)
    ]
    ours = [
        kind for kind in classes if issubclass(kind, Launcher) and kind is not Launcher
    ]
    return dict(sorted((kind.__name__.lower(), kind) for kind in ours))


def fields(kind: type[Launcher]) -> dict[str, Form]:
    """Return a launcher's fields by name: its own first, then those of all."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    names.sort(key=COMMON.__contains__)
    return {name: form_of(hints[name]) or TEXT for name in names}


def nearest(word: str, words: list[str]) -> str:
    """Return a hint at the known word that is most similar to `word`; else nothing.

    >>> nearest("--wroker", ["--ps", "--worker"])
    ' Did you mean --worker?'
    >>> nearest("--colour", ["--ps"])
    ''
    """
    near = difflib.get_close_matches(word.lower(), words, n=1, cutoff=0.5)
    return f" Did you mean {near[0]}?" if near else ""
