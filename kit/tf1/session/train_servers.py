"""The part of `tf.train` that describes and starts clusters."""

from __future__ import annotations

from kit.cluster_def import ClusterDef as ClusterDef
from kit.cluster_def import JobDef as JobDef
from kit.devices.replica import replica_device_setter as replica_device_setter
from kit.spec import ClusterSpec as ClusterSpec
from kit.tf1.session.server import Server as Server
from kit.tf1.session.server import ServerDef as ServerDef

__all__ = [
    "ClusterDef",
    "ClusterSpec",
    "JobDef",
    "Server",
    "ServerDef",
    "replica_device_setter",
]
