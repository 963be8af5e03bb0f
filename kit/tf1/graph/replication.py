"""How the copies of a variable would be kept alike, if it had any.

Pure. A variable has one copy here, on its task: programs may say what they like.
"""

from __future__ import annotations

import enum


class VariableSynchronization(enum.Enum):
    """When copies are made alike."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How changes of several copies become one."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
