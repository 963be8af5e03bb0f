"""`tf.train.Example`: lists of values by name, a record of training data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from kit.graph.examples import KINDS, decode, encode


class _List:
    """Values of a kind; `value` is a list, to be read and changed."""

    kind: ClassVar[int]
    takes: ClassVar[tuple[type, ...]]

    def __init__(self, value: Iterable[Any] = ()) -> None:
        """Take the values; raises `TypeError` for those of another kind."""
        self.value = list(value)
        for item in self.value:
            if not isinstance(item, self.takes):
                wanted = ", ".join(kind.__name__ for kind in self.takes)
                raise TypeError(
                    f"{item!r} has type {type(item).__name__}, but expected one of: "
                    f"{wanted}"
                )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(value={self.value!r})"


class BytesList(_List):
    """Texts, as bytes."""

    kind, takes = 1, (bytes,)


class FloatList(_List):
    """Numbers of 32 bits."""

    kind, takes = 2, (int, float, np.floating, np.integer)


class Int64List(_List):
    """Whole numbers."""

    kind, takes = 3, (int, np.integer)


class Feature:
    """One list of values: give one of the three."""

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        kinds = {
            "bytes_list": bytes_list,
            "float_list": float_list,
            "int64_list": int64_list,
        }
        self._chosen = next((name for name, message in kinds.items() if message), None)
        self.bytes_list = bytes_list or BytesList()
        self.float_list = float_list or FloatList()
        self.int64_list = int64_list or Int64List()

    def WhichOneof(self, _: str) -> str | None:
        """Return the name of the list that was given, or else has values."""
        names = ("bytes_list", "float_list", "int64_list")
        filled = [name for name in names if getattr(self, name).value]
        return next(iter(filled), self._chosen)

    def _listed(self) -> tuple[int, list[Any]]:
        name = self.WhichOneof("kind")
        chosen = getattr(self, name) if name else None
        return (0, []) if chosen is None else (chosen.kind, chosen.value)

    def __repr__(self) -> str:
        name = self.WhichOneof("kind")
        return f"Feature({f'{name}={getattr(self, name)!r}' if name else ''})"


class _Map(dict[str, Feature]):
    """The features by name; asking for another one makes it, empty."""

    def __missing__(self, name: str) -> Feature:
        return self.setdefault(name, Feature())


class Features:
    """Features by name."""

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        self.feature = _Map(feature or {})

    def __repr__(self) -> str:
        return f"Features(feature={dict(self.feature)!r})"


class Example:
    """A record of training data.

    >>> example = Example(Features({"n": Feature(int64_list=Int64List([1, 2]))}))
    >>> Example.FromString(example.SerializeToString()).features.feature["n"]
    Feature(int64_list=Int64List(value=[1, 2]))
    """

    def __init__(self, features: Features | None = None) -> None:
        self.features = Features() if features is None else features

    def SerializeToString(self) -> bytes:
        """Return it as the bytes of a record."""
        items = self.features.feature.items()
        return encode({name: feature._listed() for name, feature in items})

    def ParseFromString(self, record: bytes) -> int:
        """Take what a record holds, and return its size.

        Raises `InvalidArgumentError` for other bytes.
        """
        self.features = Features(
            {name: _feature(values) for name, values in decode(record).items()}
        )
        return len(record)

    @classmethod
    def FromString(cls, record: bytes) -> Example:
        """Return the example that a record holds; see `ParseFromString`."""
        made = cls()
        made.ParseFromString(record)
        return made

    def __repr__(self) -> str:
        return f"Example(features={self.features!r})"


_BY_DTYPE: Final = {
    KINDS[kind.kind]: (name, kind)
    for name, kind in (
        ("bytes_list", BytesList),
        ("float_list", FloatList),
        ("int64_list", Int64List),
    )
}


def _feature(values: Any) -> Feature:
    name, kind = _BY_DTYPE[values.dtype]
    return Feature(**{name: kind(values.tolist())})  # type: ignore[arg-type]
