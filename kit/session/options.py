"""What a session asks of its master, besides runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Options:
    """The same for all runs of a session.

    Attributes:
        soft: a device that does not exist is replaced by another of the same task.
        filters: the only tasks to use besides the target; none: all.
        isolated: variables and other state are the session's own, and end with it.
        whole: an op that no device fits ends every run, also of others, as in the
            original; else only the runs that need it.

    >>> Options.from_plain(Options(filters=("/job:ps",)).to_plain()).filters
    ('/job:ps',)
    """

    soft: bool = False
    filters: tuple[str, ...] = ()
    isolated: bool = False
    whole: bool = False

    def to_plain(self) -> dict[str, Any]:
        """Return them as plain data that JSON can carry."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Options:
        """Rebuild them from `to_plain`."""
        filters = tuple(str(one) for one in plain.get("filters", ()))
        flags = [bool(plain.get(name)) for name in ("soft", "isolated", "whole")]
        return cls(flags[0], filters, *flags[1:])
