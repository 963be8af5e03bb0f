"""How a training is to be elastic: `kit.train(..., elastic=kit.Elastic(...))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Final

from kit.errors import InvalidArgumentError
from kit.features import FeatureOptions
from kit.handles import handle
from kit.message_fields import check, maybe, table_of, whole
from kit.task import Task
from kit.training.core.log import SHARE
from kit.training.features.elastic.generation import Generation
from kit.training.features.elastic.placing import Placing, check_shares

_WORKER: Final = "worker"
_FIELDS: Final = {
    "logical_workers": maybe(whole(1)),
    "spare": whole(0),
    "shares": table_of(SHARE),
}


@handle
@dataclass(frozen=True)
class Elastic(FeatureOptions):
    """How a training is spread over tasks that may be lost, leave or come.

    A logical worker owns a split of the mini-batch and a turn in the sums. Their number
    is fixed when the training begins, and decides its bits; the tasks that host them
    may change at any time.

    Parameters
    ----------
    logical_workers : int, optional
        How many logical workers there are, and so how many worker tasks can take part
        at most. By default as many as there are worker tasks, without the spare ones.
    spare : int, default 0
        How many worker tasks host none at first. They hold copies of the state, and
        take over the part of a task that is lost.
    shares : dict of str to float, optional
        How many logical workers a task hosts, relative to one that is not named:
        `{"worker:1": 2}`. From 0.01 to 100.

    Raises
    ------
    InvalidArgumentError
        A value is out of range; or, from `kit.train`, the cluster has too few tasks.

    Notes
    -----
    A task that hosts several logical workers computes their gradients one beside the
    other, in threads; it needs memory for the parameters and gradients of each.

    Examples
    --------
    Twelve logical workers, on any number of tasks up to twelve::

        run = kit.train(step, params, data, elastic=kit.Elastic(logical_workers=12))
        run.resize(worker=2)
    """

    logical_workers: int | None = None
    spare: int = 0
    shares: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check what can be known to be wrong without a cluster."""
        check("kit.Elastic", _FIELDS, asdict(self))

    def members(self, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Return the members of a training on these tasks, in their order.

        >>> tasks = [Task("ps", 0), Task("worker", 0), Task("worker", 1)]
        >>> [task.short for task in Elastic(3).members(tasks)]
        ['ps:0', 'worker:0', 'worker:1', 'worker:2']
        """
        workers = [task for task in tasks if task.job == _WORKER]
        n_left = len(workers) - self.spare
        if self.spare and n_left < 1:
            raise InvalidArgumentError(
                f"spare={self.spare} leaves none of the {len(workers)} worker tasks to "
                f"compute; start the cluster with more of them."
            )
        wanted = n_left if self.logical_workers is None else self.logical_workers
        # Members have the names of the tasks that are there, then free numbers: so each
        # task hosts the member of its own name.
        names = [task.index for task in workers]
        names += [n for n in range(wanted + len(names)) if n not in names]
        members = [Task(_WORKER, index) for index in sorted(names[:wanted])]
        by_job = dict[str, list[Task]]()
        for task in tasks:
            by_job.setdefault(task.job, []).append(task)
        return tuple(chain.from_iterable((by_job | {_WORKER: members}).values()))

    def first(self, run: str, tasks: Sequence[Task]) -> Generation:
        """Return the first generation of a training on these tasks."""
        processes = [task.short for task in tasks]
        check_shares(self.shares, processes)
        n_workers = sum(task.job != "ps" for task in tasks)
        wanted = n_workers - self.spare if self.spare else 0
        placing = Placing(workers=wanted, shares=dict(self.shares))
        return Generation.first(run, self.members(tasks), processes, placing)


def staying(run: str, tasks: Sequence[Task]) -> Generation:
    """Return the first generation of a training to which lost workers come back."""
    processes = [task.short for task in tasks]
    return Generation.first(run, tasks, processes, Placing(), rehosts=False)


def members_of(
    elastic: bool | Elastic, tasks: tuple[Task, ...], hosts: tuple[str, ...], run: str
) -> tuple[tuple[Task, ...], tuple[str, ...], Generation]:
    """Return the members, their hosts, and the first generation on these tasks."""
    if not isinstance(elastic, bool | Elastic):
        raise InvalidArgumentError(
            f"elastic is {elastic!r}; give True, False, or kit.Elastic(...)."
        )
    options = elastic if isinstance(elastic, Elastic) else Elastic()
    generation = options.first(run, tasks)
    host_of = dict(zip([task.short for task in tasks], hosts, strict=False))
    hosts = tuple(host_of[name] for name in generation.places) if hosts else ()
    return options.members(tasks), hosts, generation
