"""Classes with checked fields, in place of the original's protobuf messages.

Pure. A message has the fields that its class annotates and no others:

    class Options(CheckedMessage):
        growth: bool
        names: list[str]
        gpu: Gpu

    bool, int, float, str   a value; its default is False, 0, 0.0 or ''
    bytes                   the same; its default is b''
    Annotated[int, Level]   a number that has a name, by a class of `Choice`
    list[str]               a list of values
    Repeated[Gpu]           a list of messages
    dict[str, int]          a dict
    a message class         a message inside

`str(message)` is its text; `from_text` reads that of messages of values and lists.
"""

from __future__ import annotations

import copy
from inspect import get_annotations
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from kit.protobuf_text import TextReader, quoted

MessageT = TypeVar("MessageT", bound="CheckedMessage")
ItemT = TypeVar("ItemT")


class Choice(int):
    """A field that holds a number for each of some names."""

    NAMES: ClassVar[dict[int, str]] = {}

    @classmethod
    def text(cls, number: int) -> str:
        """Return the name of a number."""
        return cls.NAMES.get(number, str(number))


class CheckedMessage:
    """A record with checked fields; equal to another of its class with equal fields."""

    FIELDS: ClassVar[dict[str, Any]] = {}
    # Whether just one field is set, which is then written even with its default.
    IS_ONE_OF: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        cls.FIELDS = {name: _kind_of(hints[name]) for name in get_annotations(cls)}

    def __init__(self, **fields: Any) -> None:
        """Fill the fields given; raises `ValueError` for one that does not exist."""
        # A default is made when it is asked for: messages have many fields.
        self.__dict__.update(_values={}, _set=set())
        for name, value in fields.items():
            if name not in self.FIELDS:
                raise ValueError(
                    f"Protocol message {type(self).__name__} has no {name!r} field; it "
                    f"has {', '.join(self.FIELDS)}."
                )
            if value is not None:
                self._fill(name, value)

    def _fill(self, name: str, value: Any) -> None:
        kind = self.FIELDS[name]
        values: dict[str, Any] = self.__dict__["_values"]
        if isinstance(kind, list | dict):
            _extend(self, name, kind, getattr(self, name), value)
        elif _is_message(kind):
            if not isinstance(value, kind):
                raise _wrong(self, name, value)
            values[name] = copy.deepcopy(value)
        else:
            values[name] = _checked(self, name, kind, value)
        self.__dict__["_set"].add(name)

    def __getattr__(self, name: str) -> Any:
        # `copy` and `pickle` ask a new object for `__setstate__`, before it is filled.
        values = self.__dict__.get("_values", {})
        if name not in self.FIELDS:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}.")
        if name not in values:  # at once, where two threads ask for it
            values.setdefault(name, _default(self.FIELDS[name]))
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.FIELDS:
            raise AttributeError(f"{type(self).__name__} has no field {name!r}.")
        kind = self.FIELDS[name]
        if isinstance(kind, list | dict) or _is_message(kind):
            raise AttributeError(
                f"Assignment not allowed to the field {name!r} of "
                f"{type(self).__name__}; change it in place, or use CopyFrom."
            )
        self._fill(name, value)

    def HasField(self, name: str) -> bool:
        """Whether a field was set."""
        if name not in self.FIELDS:
            raise ValueError(f"{type(self).__name__} has no field {name!r}.")
        kind, value = self.FIELDS[name], self._values.get(name)
        if _is_message(kind) and value is not None:
            return name in self._set or bool(value != kind())
        return bool(value)

    def CopyFrom(self, other: Self) -> None:
        """Take over all fields of another message."""
        if not isinstance(other, type(self)):
            raise TypeError(f"{other!r} is not a {type(self).__name__}.")
        self.__dict__.update(copy.deepcopy(other.__dict__))

    def MergeFrom(self, other: Self) -> None:
        """Take over the fields that are set in another message; lists are joined."""
        if not isinstance(other, type(self)):
            raise TypeError(f"{other!r} is not a {type(self).__name__}.")
        for name, value in copy.deepcopy(other._values).items():
            kind = self.FIELDS[name]
            if _is_message(kind):
                if hasattr(kind, "MergeFrom"):
                    getattr(self, name).MergeFrom(value)
                elif value != kind():
                    self._values[name] = value
            elif isinstance(kind, list):
                getattr(self, name).extend(value)
            elif isinstance(kind, dict):
                getattr(self, name).update(value)
            elif value != _default(kind):
                self._values[name] = value

    def Clear(self) -> None:
        """Reset all fields to their defaults."""
        self._values.clear()
        self._set.clear()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = self._values.keys() | other.__dict__["_values"].keys()
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        values = {name: _copied(value) for name, value in self._values.items()}
        new.__dict__.update(_values=values, _set=set(self._set))
        return new

    def __str__(self) -> str:
        return "".join(_lines(self))

    def __repr__(self) -> str:
        return str(self) or f"{type(self).__name__}()"

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the message that a text describes, also one that was written by hand.

        Fields are texts, floats and lists of them. Of one value that is given twice the
        last counts. Raises `ValueError` with the line for anything else.
        """
        reader, held = TextReader(text, f"a {cls.__name__}"), dict[str, Any]()
        readers = {str: reader.string, float: reader.number}
        while not reader.is_at_end:
            name = reader.field(*cls.FIELDS)
            reader.colon()
            kind = cls.FIELDS[name]
            if isinstance(kind, list):
                read: Any = readers[kind[0]]
                held.setdefault(name, []).extend(reader.values(read))
            else:
                held[name] = readers[kind]()
            reader.skip(",;")
        return cls(**held)


_PLAIN = (bool, int, float, str, bytes)


def _copied(value: Any) -> Any:
    """Return a copy of a field's value; a general copy of a graph takes seconds."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Repeated):
        return Repeated(value._kind, map(_copied, value))
    return [*map(_copied, value)] if type(value) is list else copy.deepcopy(value)


class Repeated(list[ItemT]):
    """The values of a repeated field of messages, to which `add` appends a new one."""

    def __init__(self, kind: type[ItemT], values: Any = ()) -> None:
        super().__init__(values)
        self._kind = kind

    def add(self, **fields: Any) -> ItemT:
        """Append a new message with these fields, and return it."""
        self.append(self._kind(**fields))
        return self[-1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Repeated, (self._kind, list(self))


def _kind_of(hint: Any) -> Any:
    """Return what is annotated as `FIELDS` has it: [str] for a list, {str: int}."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is dict:
        return dict([parts])
    if kind is Annotated:
        return parts[1]
    return [_kind_of(parts[0])] if parts else hint


def _is_message(kind: Any) -> bool:
    if not isinstance(kind, type) or issubclass(kind, Choice):
        return False
    return kind not in (bool, int, float, str, bytes)


def _default(kind: Any) -> Any:
    if isinstance(kind, type):
        return 0 if issubclass(kind, Choice) else kind()
    if isinstance(kind, list) and _is_message(kind[0]):
        return Repeated(kind[0])
    return type(kind)()


def plain_of(message: CheckedMessage) -> dict[str, Any]:
    """Return the fields that are set as data for JSON; `message_of` reads it."""
    plain = {}
    for name, value in message._values.items():
        if value != _default(message.FIELDS[name]):
            plain[name] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, CheckedMessage):
        return plain_of(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.decode("latin-1") if isinstance(value, bytes) else value


def message_of(kind: type[MessageT], plain: dict[str, Any]) -> MessageT:
    """Return the message that `plain_of` has written."""
    return kind(**{name: _of_plain(kind.FIELDS[name], x) for name, x in plain.items()})


def _of_plain(kind: Any, plain: Any) -> Any:
    if isinstance(kind, list):
        return [_of_plain(kind[0], item) for item in plain]
    if _is_message(kind):
        return message_of(kind, plain)
    return plain.encode("latin-1") if kind is bytes else plain


def _wrong(message: CheckedMessage, name: str, value: Any) -> TypeError:
    return TypeError(
        f"{value!r} has type {type(value).__name__}, which the field {name!r} of "
        f"{type(message).__name__} does not take."
    )


def _checked(message: CheckedMessage, name: str, kind: type, value: Any) -> Any:
    if kind is float and isinstance(value, int | float):
        return float(value)
    if kind is str and isinstance(value, bytes):
        return value.decode()
    if kind is bool and isinstance(value, int):
        return bool(value)
    if issubclass(kind, int) and hasattr(value, "__index__"):
        return int(value.__index__())
    if kind is bytes and isinstance(value, str):
        return value.encode()
    if not isinstance(value, kind):
        raise _wrong(message, name, value)
    return value


def _extend(
    message: CheckedMessage, name: str, kind: Any, held: Any, value: Any
) -> None:
    try:
        if isinstance(kind, list):
            held.extend(_one(message, name, kind[0], each) for each in value)
        else:
            ((of_key, of_value),) = kind.items()
            for key, part in dict(value).items():
                item = _one(message, name, of_value, part)
                held[_one(message, name, of_key, key)] = item
    except (TypeError, ValueError) as exc:
        raise _wrong(message, name, value) from exc


def _one(message: CheckedMessage, name: str, kind: Any, value: Any) -> Any:
    if _is_message(kind):
        if not isinstance(value, kind):
            raise _wrong(message, name, value)
        return copy.deepcopy(value)
    return _checked(message, name, kind, value)


def _lines(message: CheckedMessage) -> list[str]:
    lines = []
    for name, kind in message.FIELDS.items():
        if name not in message._values:
            continue
        value = message._values[name]
        if message.IS_ONE_OF and name in message._set and not _is_message(kind):
            lines.append(_text(name, value, kind))
            continue
        if isinstance(kind, list):
            lines += [_text(name, item, kind[0]) for item in value]
        elif isinstance(kind, dict):
            lines += [
                f"{name} {{\n  {_text('key', key)}  {_text('value', item)}}}\n"
                for key, item in sorted(value.items())
            ]
        elif _is_message(kind):
            lines += [_text(name, value)] * message.HasField(name)
        elif value != _default(kind):
            lines.append(_text(name, value, kind))
    return lines


def _text(name: str, value: Any, kind: Any = None) -> str:
    if isinstance(kind, type) and issubclass(kind, Choice):
        return f"{name}: {kind.text(value)}\n"
    if isinstance(value, bool):
        return f"{name}: {str(value).lower()}\n"
    if isinstance(value, int | float):
        return f"{name}: {value}\n"
    if isinstance(value, str):
        return f"{name}: {quoted(value)}\n"
    if isinstance(value, bytes):
        return f'{name}: "{"".join(map(_escaped, value))}"\n'
    body = "".join(f"  {line}\n" for line in str(value).splitlines())
    return f"{name} {{\n{body}}}\n"


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
