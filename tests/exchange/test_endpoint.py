"""What an endpoint does when links and trainings end."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest

from kit.errors import AbortedError
from kit.exchange.layout import Range, Spec, lay_out
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.port import Expected, Stamp
from kit.testing.contracts.port import MakePorts
from kit.testing.group import local_group
from kit.testing.task_process import until
from tests.exchange.pumped import clear_pair, pumped_group, sealed_pair


def test_abort_while_the_doorbell_closes_does_not_write_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = Endpoint(["/job:worker/task:0"], 0, Stamp(), deadline_s=1.0)
    plain, closed = os.close, []

    def close(fd: int) -> None:
        plain(fd)
        closed.append(fd)
        # The number is free now: what is written to it may reach another file.
        endpoint.abort(AbortedError("the training did not begin on all tasks."))

    monkeypatch.setattr(os, "close", close)
    endpoint.close()

    assert len(closed) == 1
    assert endpoint.error is not None


KINDS: dict[str, MakePorts] = {
    "shared memory": local_group,
    "streams": partial(local_group, in_place=False, pair=clear_pair),
    "threads": pumped_group,
    "threads under records": partial(pumped_group, pair=sealed_pair),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_the_end_of_a_link_wakes_one_that_waits_for_another_and_is_told(
    make: MakePorts,
) -> None:
    layout = lay_out((Spec("w", (4,), "float32"),), 3)
    due = (Expected(0, Range(0, 16)),)
    with make(layout, 3) as members:
        mine, _, third = (member.endpoint for member in members)
        mine.expect({1: (due, due), 2: (due, due)}, 0)
        mine.on_loss = lambda: mine.abort(AbortedError("the third one is gone."))

        def leave() -> None:
            until(lambda: mine.asleep[0])
            third.close()

        leaving = threading.Thread(target=leave)
        leaving.start()
        with pytest.raises(AbortedError, match="the third one is gone"):
            mine.until_arrived(mine.ports[1])
        leaving.join()

        assert mine.ports[2].lost
        assert not mine.ports[1].lost
