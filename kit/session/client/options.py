"""The options of a session that its master must know. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from kit.message_fields import check, flag, list_of, optional, text

_FIELDS: Final = {
    "soft": optional(flag()),
    "filters": optional(list_of(text(1000))),
    "isolated": optional(flag()),
    "whole": optional(flag()),
}


@dataclass(frozen=True)
class SessionOptions:
    """The same for all runs of a session.

    Attributes:
        soft: a device that does not exist is replaced by another of the same task.
        filters: the only tasks to use besides the target; empty: all.
        isolated: variables and other state belong to the session, and end with it.
        whole: an op that fits no device fails every run of the graph, as in TensorFlow;
            else only runs that need the op.

    >>> given = SessionOptions(filters=("/job:ps",)).to_plain()
    >>> SessionOptions.from_plain(given).filters
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
    def from_plain(cls, plain: object) -> SessionOptions:
        """Rebuild them from `to_plain`; `InvalidArgumentError` for anything else."""
        values = check("options", _FIELDS, plain)
        return cls(**{**values, "filters": tuple(values.get("filters", ()))})
