"""A master's part in one step: it begins the segments, and gathers their results.

The segment of its own task runs in the same thread, and exchanges tensors by it. How a
run begins and ends is described in `session.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kit.errors import CancelledError, KitError, LinkLost, PeerLost, UnavailableError
from kit.graph.dtypes import Array
from kit.session.client.feeds_on_tasks import split_feeds
from kit.session.master.partition import TensorMove
from kit.session.transport.channel import GRACE_S, Channel
from kit.session.transport.message import Act, begin_lending, send
from kit.session.worker.step import Step, Ways
from kit.session.worker.worker import Worker
from kit.task import Task

T = TypeVar("T")


class StepCoordinator(Ways):
    """The channels of one step to the other tasks that take part."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._peers = worker, worker.peers
        self._channels: dict[Task, Channel] = {}

    def begin(
        self, step: Step, tokens: Mapping[Task, int], feeds: Mapping[Task, list[Array]]
    ) -> None:
        """Tell every other task to run its segment."""
        traced = {"traced": True} if step.records is not None else {}
        for task, token in tokens.items():
            if task == self._worker.task:
                continue
            link = self._peers.take(task, step.left_s)
            push = partial(self._peers.push, step, task)
            channel = self._channels[task] = Channel(link, push, GRACE_S)
            # Held before it is watched: an abort in between must close it, too.
            step.hold(link)
            self._worker.watch.during(link, partial(self._ended, step, task, channel))
            arrays, late = split_feeds(feeds[task])
            self._naming(task, begin_lending, link, arrays, step.left_s)
            tell = partial(
                send,
                link,
                Act.SEGMENT,
                deadline_s=step.left_s,
                number=token,
                step=step.number,
                limit_s=step.left_s,
                meta={**traced, **late} if late else traced,
                arrays=arrays,
            )
            self._naming(task, tell)

    def send(self, step: Step, move: TensorMove, value: Any) -> None:
        """Send a tensor of our own segment."""
        channel, along = self._channels[move.peer], step.note_sending()
        args = step, move.number, along, value
        self._naming(move.peer, channel.send_tensor, *args)

    def receive(self, step: Step, move: TensorMove) -> Any:
        """Return a tensor that our own segment needs."""
        channel = self._channels[move.peer]
        what = f"{move.tensor!r} from {move.peer}"
        message = self._naming(move.peer, channel.receive, step, move.number, what)
        if message is None:
            # There was no room on the channel: it comes by a link of its own.
            message = self._worker.rendezvous.take(step, move.number, what)
        return step.take(move, message)

    def finish(self, step: Step) -> dict[Task, list[Array]]:
        """Wait for all other tasks; returns their fetches."""
        results = {}
        for task, channel in self._channels.items():
            answer = self._naming(task, channel.answer, step)
            results[task] = answer.arrays
            self._lend(step, channel, answer.arrays)
            if step.records is not None:
                notes = answer.meta
                step.records.nodes += [tuple(row) for row in notes.get("nodes", [])]
                step.records.transfers += [tuple(row) for row in notes.get("moves", [])]
        return results

    def cause(self, step: Step, error: KitError) -> KitError:
        """Return the error that came first, given one that this task has met."""
        # A cancellation closes links, and all that follows looks like a lost task.
        if isinstance(step.error, CancelledError):
            return step.error
        # Our own part's error came by itself, unless it is of a kind that the end of
        # another part brings about.
        if step.error is None and not isinstance(
            error, UnavailableError | CancelledError
        ):
            return error
        for channel in self._channels.values():
            # Mostly unread so far: we were woken by the end of the link behind it.
            failure = channel.failure()
            if failure is not None and not isinstance(failure, CancelledError):
                return failure
        return step.error or error

    def close(self, step: Step) -> None:
        """Give the channels back. The end of its channel cancels a task's part."""
        for channel in self._channels.values():
            self._worker.watch.forget(channel.link)
            step.release(channel.link)
            self._peers.put_back(channel.link, is_clean=channel.is_clean)

    def _lend(self, step: Step, channel: Channel, arrays: list[Array]) -> None:
        """Lend large arrays over this channel from now on, if it has just carried some.

        What was large once is likely to be so again. This run does not need it, so an
        error only means that the link is not used again.
        """
        channel.has_question = True
        with suppress(KitError):
            begin_lending(channel.link, arrays, step.left_s)
            channel.has_question = False

    def _ended(self, step: Step, task: Task, channel: Channel) -> None:
        """Note that a task has closed its channel: it failed, or has died."""
        if not channel.is_done:
            reason = "its process has ended, or the line is cut."
            self._worker.abort(step, _lost(task, reason), spare=channel.link)

    def _naming(self, task: Task, call: Callable[..., T], *args: Any) -> T:
        try:
            return call(*args)
        except LinkLost as error:
            raise _lost(task, error.message) from error


def _lost(task: Task, reason: str) -> PeerLost:
    return PeerLost(
        f"{task} was lost while it ran its part: {reason} Its variables are lost with "
        f"it; start it again, make a new session, and initialise or restore.",
        task=str(task),
    )


def feeds_by_task(
    feeds: Sequence[Array], feed_of: Mapping[Task, Sequence[int]]
) -> dict[Task, list[Array]]:
    """Return for each task the feeds that its segment wants, in its order."""
    return {task: [feeds[i] for i in wanted] for task, wanted in feed_of.items()}
