"""What a notebook may ask of a training under way: each request is one small message.

A request returns at once. The coordinator notes it, and all members take it up together
at a boundary between two steps, or none does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kit.errors import FailedPreconditionError, KitError
from kit.training.client.observer import Observer
from kit.training.commands import check_command
from kit.training.job import Job
from kit.wire.shaping import LinkSettings


class Steered:
    """A training that can be steered."""

    def __init__(self, job: Job, observer: Observer) -> None:
        """Steer the training `job` through who watches it."""
        self.job = job
        self._observer = observer

    @property
    def topology(self) -> str:
        """How gradients meet now; set it to switch at the next step boundary."""
        row = self._observer.epoch()
        return row.topology if row else self.job.topology

    @topology.setter
    def topology(self, name: str) -> None:
        self._configure(topology=name)

    @property
    def link(self) -> str:
        """The speed of the links, `""` for full speed; set it like `"1gbit,5ms"`."""
        row = self._observer.epoch()
        return row.link if row else self.job.link

    @link.setter
    def link(self, text: str) -> None:
        self._configure(link=str(LinkSettings.parse(text)))

    @property
    def synchronous(self) -> bool:
        """Whether a step is made of all workers' gradients; else each goes alone.

        Set it to change that at the next step boundary. Asynchronous training meets at
        the parameter servers alone: `InvalidArgumentError` for another topology.
        """
        row = self._observer.epoch()
        return not row.is_asynchronous if row else self.job.synchronous

    @synchronous.setter
    def synchronous(self, wanted: bool) -> None:
        self._configure(synchronous=wanted)

    def switch(
        self,
        topology: str | None = None,
        *,
        link: str = "",
        synchronous: bool | None = None,
        at: int,
    ) -> None:
        """Ask for another configuration from step number `at` on.

        Raises `InvalidArgumentError` for what this training cannot become, or for a
        step that it does not have; nothing is asked then.
        """
        changes: dict[str, Any] = {"at": at}
        if topology is not None:
            changes["topology"] = topology
        if link:
            changes["link"] = str(LinkSettings.parse(link))
        if synchronous is not None:
            changes["synchronous"] = synchronous
        self._configure(**changes)

    @property
    def switching(self) -> str:
        """The topology that is requested and does not hold yet; else empty."""
        return self._observer.pending()

    @property
    def requested(self) -> dict[str, Any]:
        """The topology, link and `synchronous` requested that do not hold yet."""
        request = self._observer.requested() or {}
        names = ("topology", "link", "synchronous")
        return {name: request[name] for name in names if name in request}

    @property
    def halting(self) -> str:
        """What waits for the end of the step under way: pausing, stopping, else ""."""
        if self._observer.finished.done():
            return ""
        return str(self._observer.leads().get("halting", ""))

    @property
    def refused(self) -> str:
        """Why the last request was not taken up; empty if it was."""
        return self._observer.refused()

    def pause(self) -> None:
        """Stop between two steps, until `resume`. Returns at once."""
        self._observer.command("pause", steps=0)

    def advance(self, steps: int = 1) -> None:
        """Do so many more steps, then pause. Returns at once."""
        self._observer.command("pause", steps=steps)

    def resume(self) -> None:
        """Go on after a pause."""
        self._observer.command("resume")

    def stop(self) -> None:
        """End the training between two steps; its parameters stay. Returns at once."""
        if not self._observer.finished.done():
            with suppress(FailedPreconditionError):  # it has ended meanwhile
                self._observer.command("stop")

    def look(self) -> None:
        """Ask the coordinator at once how things stand; else that is done regularly."""
        with suppress(KitError):  # it may be over already, and is looked at anyway
            self._observer.command("look")

    def _configure(self, **changes: Any) -> None:
        values = check_command("configure", changes)
        self.job.check_step(values.get("at", 0))
        if "topology" in values:
            self.job.check_topology(values["topology"])
        self._observer.command("configure", **values)
