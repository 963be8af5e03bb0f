"""`tensorflow.python.client`: the timeline of a run, and the devices of this host."""

from kit.tf1.not_offered import refusing
from kit.tf1.python.client import device_lib as device_lib
from kit.tf1.python.client import timeline as timeline
from kit.tf1.python.submodules import alias
from kit.tf1.session import session as session

alias(__name__, session, "session")

__getattr__ = refusing("python.client")
