"""The compressors that have a name of their own. Pure."""

from __future__ import annotations

from difflib import get_close_matches

from kit.errors import InvalidArgumentError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.half import Float16

_NAMED: dict[str, type[Compressor]] = {"float16": Float16}


def compressor_of(given: Compressor | str | None) -> Compressor | None:
    """Return what `compress=` means; None where gradients travel as they are.

    >>> compressor_of("float16")
    Float16()
    """
    if given is None or isinstance(given, Compressor):
        return given
    if isinstance(given, str) and given in _NAMED:
        return _NAMED[given]()
    near = get_close_matches(str(given), _NAMED, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidArgumentError(
        f"compress is {given!r}; give {', '.join(map(repr, _NAMED))}, or an object of "
        f"a class derived from kit.exchange.Compressor.{hint}"
    )
