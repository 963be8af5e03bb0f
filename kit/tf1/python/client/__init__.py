"""`tensorflow.python.client`: the timeline of a run, and the devices of this host."""

from kit.tf1.python.client import device_lib as device_lib
from kit.tf1.python.client import timeline as timeline
from kit.tf1.python.submodules import importable
from kit.tf1.session import session as session

__all__ = ["device_lib", "session", "timeline"]

importable(__name__, __all__)
