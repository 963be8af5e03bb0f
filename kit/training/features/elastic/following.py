"""How an observer finds the next generation of an elastic training."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any, Final

from kit.errors import DeadlineExceededError, KitError, from_plain
from kit.task import Task
from kit.training.client.newest import Dial
from kit.training.core.job import Job
from kit.training.features.elastic.asking import Told, Unanswered, ask_all

_LOOK_S: Final = 0.02
_NOBODY: Final = "no task that hosts a part of it answers."


def find_next(job: Job, dial: Dial, step: int) -> Job | None:
    """Wait for the generation that follows a job's; None if the training is over.

    It is the job's own if all that host a part of it are heard again and go on: they
    were stopped, or the line was cut, for long. If all of them are gone, those that
    stand by are told so, and which `step` the training had reached. Raises what the
    training has failed with.
    """
    ended, limits = job.generation, job.settings

    def ask(process: str, op: str = "elastic.look", **values: Any) -> dict[str, Any]:
        with closing(dial(Task.parse(process), "")) as caller:
            question = {"origin": ended.origin, **values}
            return caller.call(op, limits.dead_after_s, question)[0]

    give_up = time.monotonic() + limits.dead_after_s + limits.start_deadline_s
    unanswered: Unanswered = {}
    renew = time.monotonic() + limits.redial_after_s
    while (now := time.monotonic()) < give_up:
        if now > renew:  # a new connection gets through a line that is whole again
            unanswered.clear()
            renew = now + limits.redial_after_s
        # Any answer is enough: one that is stopped must not keep the others waiting.
        replies = ask_all(ended.processes, ask, lambda _: True, unanswered=unanswered)
        heard = [item for item in replies.values() if not isinstance(item, KitError)]
        for reply in heard:
            following = Job.from_plain(reply["job"], job)
            if following.generation.number > ended.number:
                return following
            if reply["error"]:
                raise from_plain(reply["error"])
            if reply["done"]:
                return None
        hosts = [replies[host] for host in ended.places if host]
        if all(isinstance(reply, dict) and reply["runs"] for reply in hosts):
            return job
        # All refuse the connection, so all have ended; a late one may still live.
        if not heard and not _late(replies, ended.processes):
            return None
        if not _late(replies, ended.places) and not any(
            isinstance(replies[host], dict) for host in ended.places
        ):
            # Those that stand by have no links that would show them the loss.
            for process in ended.standby:
                with suppress(KitError):
                    told_of = {"number": ended.number, "reason": _NOBODY, "step": step}
                    ask(process, "elastic.lose", **told_of)
        time.sleep(_LOOK_S)
    return None


def _late(replies: Told, processes: Sequence[str]) -> bool:
    return any(
        isinstance(replies[process], DeadlineExceededError) for process in processes
    )
