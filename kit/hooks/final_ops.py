"""Evaluates something at the end of a training."""

from __future__ import annotations

from typing import Any

from kit.errors import OutOfRangeError
from kit.hooks import environment
from kit.hooks.hook import SessionRunHook


class FinalOpsHook(SessionRunHook):
    """Runs `final_ops` at the end and keeps what comes out in `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self._values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """What came out; None before the end."""
        return self._values

    def end(self, session: Any) -> None:
        """Run them."""
        if self._ops is None:
            return
        try:
            self._values = session.run(self._ops, feed_dict=self._feeds)
        except (OutOfRangeError, StopIteration):
            environment.current().warning(
                "FinalOpsHook found no more input for its final ops: give them one "
                "that does not end with the training's."
            )
            raise
