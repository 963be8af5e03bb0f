"""The cluster: ipyparallel engines become tasks, and go away without a trace."""

from __future__ import annotations

from kit.cluster import launchers as launchers
from kit.cluster.cells.on import CellFailed as CellFailed
from kit.cluster.cells.on import CellInterrupted as CellInterrupted
from kit.cluster.cells.on import Outcome as Outcome
from kit.cluster.cluster import Cluster as Cluster
from kit.cluster.processes.bootstrap import Bootstrap as Bootstrap
from kit.cluster.report import ClusterState as ClusterState
from kit.cluster.report import TaskStatus as TaskStatus
from kit.cluster.running import current as current
