"""A member's writer of checkpoints, with a coordinator that a test controls."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kit
from kit.exchange.layout import Range, Spec
from kit.exchange.plan import NOW, Owned
from kit.exchange.ports.connect import OwnArena
from kit.exchange.ports.endpoint import Endpoint
from kit.exchange.ports.memory import physical
from kit.exchange.ports.port import Stamp
from kit.faults.history import History
from kit.testing.task_process import until
from kit.trace.traffic import Meter
from kit.training.core.context import MemberContext
from kit.training.core.questions import CoordinatorClient, MemberQuestion
from kit.training.features.checkpointing import writer
from kit.training.features.checkpointing.questions import WHERE, WROTE, Key, ShardPath
from kit.wire.frame import Buffer
from tests.training.jobs import WORKERS, made

ME, FILE = 1, "worker-1.safetensors"


class SlowClient(CoordinatorClient):
    """Asks a coordinator that answers when the test says so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.may_answer = threading.Event()
        self.drops: set[Key] = set()
        self.asked: list[Key] = []
        self.handed_in: list[tuple[Key, bool, str]] = []

    def ask(
        self,
        question: MemberQuestion[Any],
        blob: Buffer = b"",
        patience_s: float = 0.0,
        **values: Any,
    ) -> Any:
        key = values["key"]
        if question is WROTE:
            is_entry = json.loads(bytes(blob)) is not None
            self.handed_in.append((key, is_entry, values["wrong"]))
            return None
        assert question is WHERE, "it keeps nothing, and its folder is to be seen"
        self.asked.append(key)
        assert self.may_answer.wait(30)
        if key in self.drops:
            return ShardPath("drop")
        return ShardPath("write", str(self._folder))


class AnswerWhileWaiting(threading.Event):
    """An event: as soon as somebody waits for it, the coordinator answers."""

    def __init__(self, client: SlowClient) -> None:
        super().__init__()
        self.set()
        self._client = client

    def wait(self, timeout: float | None = None) -> bool:
        if timeout:
            self._client.may_answer.set()
        return super().wait(timeout)


class Scene:
    """A worker that owns all parameters, and is not the coordinator."""

    def __init__(self, folder: Path) -> None:
        job = made(
            tasks=WORKERS,
            specs=(Spec("w", (4,), "float32"),),
            optimizer=kit.GradientDescent(),
            topology="ring",
            steps=100,
            checkpoints=kit.Checkpoints(str(folder), every_steps=3),
        )
        self._own_arena = OwnArena("kit-test", job.layout, 2)
        self._memory = self._own_arena.memory
        self._endpoint = Endpoint(["0", "1"], ME, Stamp(), deadline_s=30)
        history = History("", job.tasks[ME])
        self.client = SlowClient(folder)
        parts = (Meter(ME), self._endpoint, self._memory, history)
        context, reply = MemberContext(job, ME, *parts), threading.Event()
        self.checkpoint_writer = writer.CheckpointWriter(
            context, self.client, None, reply
        )
        self.checkpoint_writer._is_idle = AnswerWhileWaiting(self.client)
        context.owners = (Owned(Range(0, job.layout.n_bytes), (ME,)),)
        self.checkpoint_writer.adopted(context.owners, 0, True)

    def after(self, step: int) -> None:
        """Let so many steps be done: every parameter is then their number."""
        (leaf,) = self._memory.layout.leaves
        self._memory.leaf(physical(NOW, 0), leaf)[...] = step

    def close(self) -> None:
        self.client.may_answer.set()
        self.checkpoint_writer.close()
        self._endpoint.close()
        self._own_arena.arena.close()
        vars(self).clear()  # what looks into the memory keeps it open


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(writer, "DROP_S", 30.0)  # the machine may be busy
    result = Scene(tmp_path)
    yield result
    result.close()


def saved(folder: Path) -> list[float]:
    result: list[float] = np.frombuffer(
        (folder / FILE).read_bytes()[-16:], "<f4"
    ).tolist()
    return result


def test_member_whose_copy_was_refused_takes_part_in_the_agreed_save_that_follows(
    scene: Scene, tmp_path: Path
) -> None:
    scene.client.drops.add((3, 0))
    scene.after(3)
    scene.checkpoint_writer.committed(3)  # refused, but nobody was told yet
    scene.after(4)

    scene.checkpoint_writer.take_part(4, 2)

    until(lambda: bool(scene.client.handed_in), 30)
    assert scene.client.asked == [(3, 0), (4, 2)]
    assert scene.client.handed_in == [((4, 2), True, "")]
    assert saved(tmp_path) == [4.0] * 4


def test_save_that_all_know_of_waits_for_no_writer(scene: Scene) -> None:
    scene.checkpoint_writer.committed(3)

    scene.checkpoint_writer.committed(6)

    scene.client.may_answer.set()
    until(lambda: len(scene.client.handed_in) == 2, 30)
    (first, second) = scene.client.handed_in
    assert first == ((3, 0), True, "")
    assert second == ((6, 0), False, "it was still writing the checkpoint before.")


def test_what_is_written_is_the_state_of_the_copy(scene: Scene, tmp_path: Path) -> None:
    scene.after(3)
    scene.checkpoint_writer.committed(3)
    scene.after(5)  # steps go on before anything is on disk
    scene.client.may_answer.set()

    until(lambda: bool(scene.client.handed_in), 30)

    assert saved(tmp_path) == [3.0] * 4


def test_member_that_went_past_the_step_says_so_and_writes_nothing(
    scene: Scene, tmp_path: Path
) -> None:
    scene.client.may_answer.set()

    scene.checkpoint_writer.committed(4)

    until(lambda: bool(scene.client.handed_in), 30)
    assert scene.client.handed_in == [
        ((3, 0), False, "it went past step 3 without a copy.")
    ]
    assert not (tmp_path / FILE).exists()
