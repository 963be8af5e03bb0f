"""Tools for testing what is built on this package; public, and stable as the rest.

`check_topology` and `check_port` are the contracts of topologies and ports: run them on
your own. All else is imported from its module, such as `kit.testing.streams` for
connections without a network.
"""

from kit.testing.port_contract import check_port as check_port
from kit.testing.topology_contract import check_topology as check_topology

__all__ = ["check_port", "check_topology"]
