"""`timeline.Timeline`: the trace of a run, as a file for Chrome's trace viewer.

metadata = tf.RunMetadata()
sess.run(train_op, options=tf.RunOptions(trace_level=3), run_metadata=metadata)
text = timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kit.errors import UnimplementedError
from kit.tf1.session.run_metadata import StepStats, events_of


class StepStatsAnalysis(NamedTuple):
    """The trace, and the most memory by allocator, of which nothing is known here."""

    chrome_trace: _Trace
    allocator_maximums: dict[str, Any]


class _Trace(NamedTuple):
    events: list[dict[str, Any]]

    def format_to_string(self, pretty: bool = False) -> str:
        """Return the trace as JSON, on several lines if it is to be read."""
        document = {"traceEvents": self.events}
        return json.dumps(document, indent=4 if pretty else None)


class Timeline:
    """What ran where and when: a row for each device, times in microseconds."""

    def __init__(self, step_stats: StepStats, graph: Any = None) -> None:
        """Take what a run has recorded in `RunMetadata.step_stats`."""
        if not isinstance(step_stats, StepStats):
            raise TypeError(
                f"step_stats is the field of a tf.RunMetadata that a run has filled: "
                f"Timeline(run_metadata.step_stats), not {step_stats!r}."
            )
        self._stats = step_stats

    def analyze_step_stats(
        self,
        show_dataflow: bool = True,
        show_memory: bool = True,
        op_time: str = "schedule",
    ) -> StepStatsAnalysis:
        """Return the trace and the use of memory, of which nothing is known."""
        return StepStatsAnalysis(_Trace(events_of(self._stats)), {})

    def generate_chrome_trace_format(
        self,
        show_dataflow: bool = True,
        show_memory: bool = False,
        op_time: str = "schedule",
    ) -> str:
        """Return the trace as JSON; write it to a file and open `chrome://tracing`.

        Raises `UnimplementedError` for `show_memory`.
        """
        if show_memory:
            raise UnimplementedError(
                "a session does not record who holds which memory; leave out "
                "show_memory=True."
            )
        return _Trace(events_of(self._stats)).format_to_string()
