"""Tools for testing what is built on this package; public, and stable as the rest.

The checks of a contract are here. Import what else you need from its module:
`kit.testing.streams` for connections without a network.
"""

from __future__ import annotations

from kit.testing.coordinator_contract import check_coordinator as check_coordinator
from kit.testing.optimizer_contract import check_optimizer as check_optimizer

__all__ = ["check_coordinator", "check_optimizer"]
