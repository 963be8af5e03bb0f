"""How gradients meet and how parameters come back: plans, and what carries them out."""

from kit.exchange.compression.compressor import Compressor as Compressor
from kit.exchange.compression.compressor import Exchanged as Exchanged
from kit.exchange.compression.compressor import Turn as Turn
from kit.exchange.layout import Spec as Spec
from kit.exchange.topologies.hierarchical import Hierarchical
from kit.exchange.topologies.mesh import Mesh
from kit.exchange.topologies.ps import ParameterServer
from kit.exchange.topologies.ring import Ring
from kit.exchange.topologies.ring_whole import WholeRing
from kit.exchange.topologies.topology import Topology as Topology
from kit.exchange.topologies.topology import register as register

# In the order in which they are offered.
register(ParameterServer())
register(Ring())
register(Mesh())
register(WholeRing())
register(Hierarchical())

__all__ = ["Compressor", "Exchanged", "Spec", "Topology", "Turn", "register"]
