"""How gradients meet and how parameters come back: plans, and what carries them out."""

from kit.exchange.mesh import Mesh
from kit.exchange.ps import ParameterServer
from kit.exchange.ring import Ring
from kit.exchange.ring_whole import WholeRing
from kit.exchange.topology import Topology as Topology
from kit.exchange.topology import register as register

register(ParameterServer())
register(Ring())
register(WholeRing())
register(Mesh())

__all__ = ["Topology", "register"]
