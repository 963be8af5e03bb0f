"""Names of ops: which texts are names, and how a clash gets a number.

Pure.
"""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*")


class Names:
    """The names in use. Those that differ in case only count as equal."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unused(self, base: str, *, take: bool = True) -> str:
        """Return `base`, or `base_1`, `base_2`, ... where it is in use already.

        With `take` False the name is only looked up and not used up.

        >>> names = Names()
        >>> names.unused("a"), names.unused("A"), names.unused("a")
        ('a', 'A_1', 'a_2')
        """
        key = base.lower()
        count = self._taken.get(key, 0)
        if take:
            self._taken[key] = count + 1
        if not count:
            return base
        candidate = base
        while candidate.lower() in self._taken:
            candidate = f"{base}_{count}"
            count += 1
        if take:
            self._taken[candidate.lower()] = 1
        return candidate


def check_name(name: str, scope: str) -> None:
    """Raise `ValueError` for a text that is no name of an op below a name scope."""
    pattern = _SCOPE if scope else _NAME
    if not pattern.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a name: use letters, digits and _ . - /, and begin "
            f"with a letter, digit or dot."
        )
