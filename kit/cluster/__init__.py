"""The cluster: ipyparallel engines become tasks, and go away without a trace."""

from __future__ import annotations

from kit.cluster import functions as functions
from kit.cluster.bootstrap import Bootstrap as Bootstrap
from kit.cluster.cluster import Cluster as Cluster
from kit.cluster.cluster import current as current
from kit.cluster.on import CellFailed as CellFailed
from kit.cluster.on import CellInterrupted as CellInterrupted
from kit.cluster.on import Outcome as Outcome
from kit.cluster.report import State as State
from kit.cluster.report import TaskStatus as TaskStatus

__all__ = [
    "Bootstrap",
    "CellFailed",
    "CellInterrupted",
    "Cluster",
    "Outcome",
    "State",
    "TaskStatus",
    "current",
]
