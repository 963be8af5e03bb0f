"""`tf.app.flags`: typed arguments of a program, `--name=value` or `--name value`.

A switch is set by `--name` or `--name=true`, and cleared by `--noname`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from kit.tf1.not_offered import refuse

_TRUTH = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


class FlagValues:
    """The program's flags as attributes; the first access parses the command line."""

    def __init__(self) -> None:
        self.__dict__["_parsers"] = {}
        self.__dict__["_values"] = {}
        self.__dict__["_is_read"] = False

    def define(self, name: str, default: Any, parse: Callable[[str], Any]) -> None:
        """Add a flag; raises `ValueError` if it exists."""
        if name in self._parsers:
            raise ValueError(f"the flag {name!r} is defined twice.")
        self._parsers[name] = parse
        self._values[name] = default

    def __call__(self, argv: Sequence[str], known_only: bool = False) -> list[str]:
        """Parse arguments, the program's name first; return those that are not flags.

        Raises `ValueError` for a value that cannot be read and, unless `known_only`,
        for an unknown flag.
        """
        self.__dict__["_is_read"] = True
        rest, waiting = list(argv[:1]), list(argv[1:])
        while waiting:
            text = waiting.pop(0)
            if text == "--":
                return rest + waiting
            if not self._take(text, waiting):
                if text.startswith("-") and not known_only:
                    raise ValueError(f"Unknown command line flag {text!r}.")
                rest.append(text)
        return rest

    def _take(self, text: str, waiting: list[str]) -> bool:
        name, equals, value = text.lstrip("-").partition("=")
        if not text.startswith("-"):
            return False
        if name not in self._parsers:
            if equals or self._parsers.get(name.removeprefix("no")) is not _truth:
                return False
            self._values[name.removeprefix("no")] = False
            return True
        if not equals:
            if self._parsers[name] is _truth:
                value = "true"
            elif waiting:
                value = waiting.pop(0)
            else:
                raise ValueError(f"Missing value for the flag --{name}.")
        self._values[name] = self._read(name, value)
        return True

    def _read(self, name: str, value: str) -> Any:
        try:
            return self._parsers[name](value)
        except (KeyError, ValueError) as exc:
            raise ValueError(f"flag --{name}={value}: {exc}") from exc

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` ask a new object for such names, before there are flags.
        if name.startswith("__") or name not in self._values:
            raise AttributeError(f"there is no flag {name!r}.")
        if not self._is_read:
            self(sys.argv, known_only=True)
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise AttributeError(f"there is no flag {name!r}.")
        self._values[name] = value

    def flag_values_dict(self) -> dict[str, Any]:
        """Return all flags and their values."""
        return dict(self._values)


FLAGS = FlagValues()


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def DEFINE_string(name: str, default: str | None, help: str = "") -> None:
    """Add a flag for a string."""
    FLAGS.define(name, default, str)


def DEFINE_integer(name: str, default: int | None, help: str = "") -> None:
    """Add a flag for an integer."""
    FLAGS.define(name, default, int)


def DEFINE_float(name: str, default: float | None, help: str = "") -> None:
    """Add a flag for a float."""
    FLAGS.define(name, default, float)


def DEFINE_boolean(name: str, default: bool | None, help: str = "") -> None:
    """Add a flag that is on or off."""
    FLAGS.define(name, default, _truth)


DEFINE_bool = DEFINE_boolean


def __getattr__(name: str) -> Any:
    refuse("app.flags", name)
