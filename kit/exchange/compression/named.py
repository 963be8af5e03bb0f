"""The compressors that have a name of their own. Pure."""

from __future__ import annotations

from difflib import get_close_matches

from kit.errors import InvalidArgumentError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.compression.float16 import Float16
from kit.exchange.compression.int8 import Int8

_NAMED: dict[str, type[Compressor]] = {one.name: one for one in (Float16, Int8)}


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
        f"compress is {given!r}; give {', '.join(map(repr, _NAMED))}, kit.TopK(0.01), "
        f"kit.PowerSGD(4), or an object of a class derived from "
        f"kit.exchange.Compressor.{hint}"
    )
