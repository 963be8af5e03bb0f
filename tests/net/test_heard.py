"""Each survivor's program hears of a loss in time, wherever it is, whatever was lost.

The promise is `dead_after_s` and two seconds, by the clock of this machine, which all
processes share. `python -m tests.net.heard` plays many more.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.errors import PeerLost
from tests.net.heard import Fault, late, play, quick

pytestmark = [pytest.mark.net, pytest.mark.slow]

FAULTS = [
    Fault("cut", "abba", callers="a"),
    Fault("cut", "ab", callers="b", side="far"),
    Fault("cut", "ba", callers="programs", topology="ps"),
    Fault("cut", "abba", callers="programs", is_paused=True),
    Fault("stop", "worker:0", callers="programs", side="far", topology="mesh"),
    Fault("stop", "ps:0", callers="a", side="far", topology="ps"),
    Fault("kill", "worker:0", callers="b"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_every_survivors_program_hears_of_a_loss_in_time(
    tmp_path: Path, fault: Fault
) -> None:
    settings = quick(3.0)

    heard = play(fault, tmp_path, settings)

    assert late(fault, heard, settings) == {}
    assert {type(value.error) for value in heard.values()} == {PeerLost}
