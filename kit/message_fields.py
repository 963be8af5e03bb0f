"""Which values a message may have: a table of fields, each with its type and range.

Pure. The sender checks by the table, and the receiver checks again, because it cannot
trust what comes over a link.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, get_type_hints

from kit.errors import InvalidArgumentError, from_plain

MOST_WHOLE: Final = 2**63 - 1  # what the integers of frames, traces and arrays hold
_MOST_SECONDS: Final = 1e9  # 30 years; a lock refuses some centuries
_SHOWN: Final = 80
_ANNOTATED: Final = "__metadata__"  # what only such a hint has


class Field(NamedTuple):
    """One value: what is expected, in words, and the function that reads it.

    `read` returns the value in the expected type (an integer of numpy becomes an int),
    and raises `TypeError` or `ValueError` for any other.
    """

    expected: str
    read: Callable[[Any], Any]
    is_needed: bool = True


Fields = Mapping[str, Field]


def check(what: str, fields: Fields, values: object) -> dict[str, Any]:
    """Return the values as their fields read them; optional ones may be missing.

    Raises `InvalidArgumentError` for the first that is missing, unknown or wrong.

    >>> check("pause", {"steps": whole(0)}, {"steps": 3})
    {'steps': 3}
    >>> check("pause", {"steps": whole(0, 9)}, {"steps": True})
    Traceback (most recent call last):
    kit.errors.InvalidArgumentError: pause: steps is True; give a whole number, 0 to 9.
    """
    if not isinstance(values, Mapping):
        raise InvalidArgumentError(
            f"{what}: the values are {shown(values)}; give them by name."
        )
    for name in values:
        if name not in fields:
            names = ", ".join(fields) or "none"
            raise InvalidArgumentError(
                f"{what}: {shown(name)} is not known; the values are {names}."
            )
    checked = {}
    for name, field in fields.items():
        if name in values:
            try:
                checked[name] = field.read(values[name])
            except (TypeError, ValueError):
                text = f"{name} is {shown(values[name])}; give {field.expected}."
                raise InvalidArgumentError(f"{what}: {text}") from None
        elif field.is_needed:
            raise InvalidArgumentError(
                f"{what}: {name} is missing; give {field.expected}."
            )
    return checked


def shown(value: object) -> str:
    """Return a value as text for an error, shortened.

    >>> shown(7), len(shown("a" * 1000))
    ('7', 83)
    """
    try:
        text = repr(value[:_SHOWN] if isinstance(value, str | bytes) else value)
    except Exception:  # from its own `__repr__`, or an int with thousands of digits
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def whole(least: int, most: int = MOST_WHOLE) -> Field:
    """Return the field of an integer; refuses True and False."""

    def read(value: Any) -> int:
        number = operator.index(value)
        _must(not isinstance(value, bool) and least <= number <= most)
        return number

    limits = f"{least} to {most}" if most < MOST_WHOLE else f"at least {least}"
    return Field(f"a whole number, {limits}", read)


def number(least: float, most: float, what: str = "a number") -> Field:
    """Return the field of a number from `least` to `most`; refuses NaN."""

    def read(value: Any) -> float:
        _must(isinstance(value, int | float) and not isinstance(value, bool))
        _must(least <= value <= most)
        return float(value)

    return Field(f"{what}, {least:g} to {most:g}", read)


def seconds() -> Field:
    """Return the field of a finite time, not below 0."""
    return number(0, _MOST_SECONDS, "a number of seconds")


def text(most: int | None = None, pattern: str = "") -> Field:
    """Return the field of a text of at most `most` characters, like `pattern`."""

    def read(value: Any) -> str:
        _must(isinstance(value, str) and (most is None or len(value) <= most))
        _must(not pattern or re.fullmatch(pattern, value) is not None)
        return str(value)

    limit = "" if most is None else f" of at most {most} characters"
    return Field(f"a text{limit}{pattern and ' like '}{pattern}", read)


def flag() -> Field:
    """Return the field of True or False; refuses 0 and 1."""

    def read(value: Any) -> bool:
        _must(isinstance(value, bool))
        return bool(value)

    return Field("True or False", read)


def list_of(field: Field, most: int = 2**16) -> Field:
    """Return the field of a list of values that have the same field."""

    def read(value: Any) -> list[Any]:
        _must(isinstance(value, list | tuple) and len(value) <= most)
        return [field.read(item) for item in value]

    return Field(f"a list of at most {most}, each {field.expected}", read)


def row_of(*fields: Field) -> Field:
    """Return the field of a list with one value for each of these fields."""

    def read(value: Any) -> tuple[Any, ...]:
        _must(isinstance(value, list | tuple) and len(value) == len(fields))
        pairs = zip(fields, value, strict=True)
        return tuple(field.read(item) for field, item in pairs)

    parts = "; ".join(field.expected for field in fields)
    return Field(f"a list of {len(fields)}: {parts}", read)


def table_of(field: Field, most: int = 2**16) -> Field:
    """Return the field of values by name that have the same field."""

    def read(value: Any) -> dict[str, Any]:
        _must(isinstance(value, Mapping) and len(value) <= most)
        _must(all(isinstance(name, str) for name in value))
        return {name: field.read(item) for name, item in value.items()}

    return Field(f"values by name, at most {most}, each {field.expected}", read)


def object_of(fields: Fields) -> Field:
    """Return the field of values by name, each with its own field."""

    def read(value: Any) -> dict[str, Any]:
        try:
            return check("", fields, value)
        except InvalidArgumentError as error:
            raise ValueError(error.message) from error

    return Field(f"values by name: {', '.join(fields)}", read)


def anything() -> Field:
    """Return the field of plain data that its own reader checks."""
    return Field("plain data", lambda value: value)


def maybe(field: Field) -> Field:
    """Return the same field, which may be None."""
    return field._replace(
        expected=f"{field.expected}, or None",
        read=lambda value: None if value is None else field.read(value),
    )


def optional(field: Field) -> Field:
    """Return the same field, which may be missing."""
    return field._replace(is_needed=False)


def fields_of(kind: type[Any]) -> dict[str, Field]:
    """Return the fields of the values of a dataclass or named tuple, by annotations.

    >>> from kit.training.core.log import Epoch
    >>> fields_of(Epoch)["first_step"].expected
    'a whole number, at least 0'
    """
    hints = get_type_hints(kind, include_extras=True).items()
    return {n: hint.__metadata__[0] for n, hint in hints if hasattr(hint, _ANNOTATED)}


def _must(holds: bool) -> None:
    if not holds:
        raise ValueError


def read_as(field: Field, read: Callable[[Any], Any]) -> Field:
    """Return a field whose value is read into an object of its own."""
    return Field(field.expected, lambda value: read(field.read(value)), field.is_needed)


ERROR: Final = read_as(
    object_of(
        {
            "type": text(100),
            "message": text(),
            "task": optional(maybe(text(1000))),
            "step": optional(maybe(whole(0))),
            "node": optional(maybe(text())),
            "traceback": optional(maybe(text())),
        }
    ),
    from_plain,
)
