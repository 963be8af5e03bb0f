"""The name of one task of a job: `/job:worker/task:1`, in short `worker:1`.

Pure: no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kit.errors import InvalidArgumentError

_LONG = re.compile(r"/?job:(?P<job>[A-Za-z][\w.-]*)/task:(?P<index>\d+)/?")
_SHORT = re.compile(r"(?P<job>[A-Za-z][\w.-]*):(?P<index>\d+)")


@dataclass(frozen=True, order=True, slots=True)
class Task:
    """One process of the cluster, named by its job and its index in the job.

    Parameters
    ----------
    job : str
        Such as "worker".
    index : int
        From 0.

    Examples
    --------
    >>> str(Task("worker", 1)), Task("worker", 1).short
    ('/job:worker/task:1', 'worker:1')
    """

    job: str
    index: int

    def __str__(self) -> str:
        return f"/job:{self.job}/task:{self.index}"

    @property
    def short(self) -> str:
        """The name for tables and messages: `worker:1`."""
        return f"{self.job}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """Read a task name.

        Parameters
        ----------
        text : str
            Long or short, with both the job and the index.

        Raises
        ------
        InvalidArgumentError
            It does not name a task.

        Examples
        --------
        >>> Task.parse("/job:ps/task:0") == Task.parse("ps:0") == Task("ps", 0)
        True
        """
        match = _LONG.fullmatch(text) or _SHORT.fullmatch(text)
        if match is None:
            raise InvalidArgumentError(
                f"{text!r} does not name a task; write 'worker:1' or "
                f"'/job:worker/task:1'."
            )
        return cls(match["job"], int(match["index"]))
