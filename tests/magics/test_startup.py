"""The table of a start, in both its forms."""

from __future__ import annotations

import re
from html import unescape

from kit.cluster.report import ClusterState, TaskStatus
from kit.magics.cluster_cell_magic import Startup
from kit.task import Task

STATUSES = (
    TaskStatus(Task("ps", 0), ClusterState.READY, ready_s=1.26),
    TaskStatus(Task("worker", 0), ClusterState.STARTING, phase="registers"),
    TaskStatus(Task("worker", 10), ClusterState.LOST, reason="<killed> by signal 9"),
)
NOTE = "memory: about 400 MiB"
MOMENT = Startup("Starting", STATUSES, past_s=2.04, note=NOTE)


def test_each_task_has_its_state_its_reason_and_its_seconds() -> None:
    assert repr(MOMENT).splitlines() == [
        "Starting",
        "task       state     what it does          seconds",
        "ps:0       ready                           1.3",
        "worker:0   starting  registers             2.0",
        "worker:10  lost      <killed> by signal 9  2.0",
        "memory: about 400 MiB",
    ]


def test_html_says_the_same_escapes_reasons_and_sets_no_colour_and_no_small_type() -> (
    None
):
    result = MOMENT._repr_html_()

    cells = re.findall(r"<(?:t[dh]|caption)[^>]*>([^<]*)<", result)
    assert " ".join(map(unescape, cells)).split() == repr(MOMENT).split()
    assert "&lt;killed&gt;" in result
    assert "color" not in result
    assert "font-size:max(13px,1em)" in result
    assert 'aria-live="polite"' in result
