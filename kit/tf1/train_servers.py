"""The part of `tf.train` that describes and starts clusters."""

from __future__ import annotations

from kit.cluster_def import ClusterDef as ClusterDef
from kit.cluster_def import JobDef as JobDef
from kit.replica_device import replica_device_setter as replica_device_setter
from kit.spec import ClusterSpec as ClusterSpec
from kit.tf1.server import Server as Server
from kit.tf1.server import ServerDef as ServerDef

__all__ = [
    "ClusterDef",
    "ClusterSpec",
    "JobDef",
    "Server",
    "ServerDef",
    "replica_device_setter",
]
