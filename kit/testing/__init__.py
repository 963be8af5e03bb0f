"""Tools for testing what is built on this package; as public and stable as the rest.

The `check_` functions are contracts, one for each kind of part that you can write: run
them on yours. Import other tools from their modules, such as `kit.testing.streams` for
connections without a network.
"""

from __future__ import annotations

from typing import Any

from kit import features
from kit.testing.contracts.coordinator import check_coordinator as check_coordinator
from kit.testing.contracts.optimizer import check_optimizer as check_optimizer
from kit.testing.contracts.port import check_port as check_port
from kit.testing.contracts.step import check_step as check_step
from kit.testing.contracts.topology import check_topology as check_topology

with features.if_there():
    from kit.testing.contracts.compressor import check_compressor as check_compressor

__all__ = [
    "check_compressor",
    "check_coordinator",
    "check_optimizer",
    "check_port",
    "check_step",
    "check_topology",
]


def __getattr__(name: str) -> Any:
    raise features.lacking(__name__, name)
