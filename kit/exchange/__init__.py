"""How gradients meet and how parameters come back: plans, and what carries them out."""

from kit.exchange.topologies.mesh import Mesh
from kit.exchange.topologies.ps import ParameterServer
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.ring_whole import WholeRing
from kit.exchange.topologies.topology import Topology as Topology
from kit.exchange.topologies.topology import register as register

register(ParameterServer())
register(Ring())
register(WholeRing())
register(Mesh())

__all__ = ["Topology", "register"]
