"""`%topology ring`: switch the training that runs, between two of its steps."""

from __future__ import annotations

import time
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class

from kit.cluster.polling import Polling, drive
from kit.errors import FailedPreconditionError
from kit.magics import running
from kit.magics.line_parsing import errors_in_one_line, option, parse, takes
from kit.training.client.run import Run

_PATIENCE_S = 2.0
_CHECK_S = 0.05


@magics_class
class TopologyMagics(Magics):
    """The magic `%topology`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell=shell)
        self._shell: Any = shell  # much of it is untyped

    @line_magic
    @takes(
        "%topology",
        option(
            "name",
            nargs="?",
            metavar="NAME",
            help="the topology to switch to, between two steps; Tab offers all",
        ),
    )
    def topology(self, line: str) -> None:
        """Show or switch the topology of the running training.

        Examples::

            %topology         show the topology, and the step of the training
            %topology ring    switch to the ring

        In plain Python: `run.topology`, `run.topology = "ring"`.
        """
        with errors_in_one_line():
            options = parse(TopologyMagics.topology, line)
            drive(_switch(options.name))


def _switch(name: str | None) -> Polling[None]:
    run = running.require().run
    if run is None:
        raise FailedPreconditionError(
            "no training has begun on this cluster; begin one with kit.train(...)."
        )
    if name is None:
        print(_said(run))
        return
    before, end = run.refused, time.monotonic() + _PATIENCE_S
    run.topology = name
    while run.topology != name and not run.done and time.monotonic() < end:
        if run.refused != before:
            raise FailedPreconditionError(f"{name} was not taken up: {run.refused}")
        yield _CHECK_S
    later = f"; {name} comes before the next step" if run.topology != name else ""
    print(f"{_said(run)}{later}")


def _said(run: Run) -> str:
    """Return the state of the training in words."""
    epochs = run.trace.epochs
    since = f" since step {epochs[-1].first_step}" if epochs else ""
    return f"{run.topology}{since}, {run.state} at step {run.step} of {run.job.steps}"
