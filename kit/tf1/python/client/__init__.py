"""`tensorflow.python.client`: the timeline of a run, and the devices of this host."""

from typing import Any

from kit.tf1.not_offered import refuse
from kit.tf1.python.client import device_lib as device_lib
from kit.tf1.python.client import timeline as timeline
from kit.tf1.python.submodules import alias
from kit.tf1.session import session as session

alias(__name__, session, "session")


def __getattr__(name: str) -> Any:
    refuse("python.client", name)
