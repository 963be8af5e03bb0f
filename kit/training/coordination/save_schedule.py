"""Which copy of a training's state is requested, being written, or the last written.

Pure. One copy is written at a time; `kit.training.coordination.membership` asks here at
every boundary.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class SaveSchedule:
    """The coordinator's account of the turns in which a training is saved.

    Steps are counted as boundaries are: a copy of step 4 is the state before it. With
    `at_the_end` the last state is saved, or one attempt to do so has failed.

    >>> turns = SaveSchedule(at_the_end=True)
    >>> turns.begun(3)
    >>> turns.begun(4)
    >>> turns.ended(3, good=True)  # heard late: step 4 is being written
    >>> turns.is_under_way, turns.is_due(5, ends=True)
    (True, False)
    >>> turns.ended(4, good=True)
    >>> turns.is_under_way, turns.is_due(5, ends=True)
    (False, True)
    """

    at_the_end: bool
    _is_requested: bool = False
    _writing: int | None = None
    _written: int = -1
    _last_tried: int = -1

    @property
    def is_under_way(self) -> bool:
        """Whether a copy is being written."""
        return self._writing is not None

    @property
    def is_called(self) -> bool:
        """Whether one is requested that can begin at once."""
        return self._is_requested and not self.is_under_way

    def is_due(self, step: int, *, ends: bool) -> bool:
        """Whether to copy the state before `step`, where all members stand."""
        tried = step in (self._written, self._last_tried)
        last = self.at_the_end and ends and not tried
        return (self._is_requested or last) and not self.is_under_way

    def request(self) -> None:
        """Ask for a copy as soon as no other is under way, also in a pause."""
        self._is_requested = True

    def agree(self, step: int) -> None:
        """Note that all members were told to copy the state before `step`."""
        self._writing = self._last_tried = step
        self._is_requested = False

    def begun(self, step: int) -> None:
        """Note that a copy is being written, agreed or known to all by its step."""
        self._writing = step

    def ended(self, step: int, *, good: bool) -> None:
        """Note that the copy of `step` is written, or could not be.

        Another one may have begun before this is heard; that one is under way still.
        """
        if self._writing == step:
            self._writing = None
        if good:
            self._written = max(self._written, step)
