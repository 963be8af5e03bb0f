"""How a program comes to its process group: `kit.torch.init()`, or torch's own call.

The tasks that run a cell or call are the ranks; nothing has to be found by addresses,
so there is no store.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from kit.errors import FailedPreconditionError, UnimplementedError
from kit.groups.group import TaskGroup
from kit.groups.traffic import GroupTraffic
from kit.server.opening import group as group_of
from kit.server.server import Server
from kit.torch.process_group import TaskProcessGroup

_BACKEND, _SCHEME = "psring", "env"
_world: list[TaskGroup] = []  # the group whose default process group is being made


def init(
    *tasks: Any,
    link: str | None = None,
    timeout_s: float = 600.0,
    cluster: Server | None = None,
) -> Any:
    """Make the tasks that run this the default process group of torch.distributed.

    What `torch.distributed.init_process_group("psring")` does, with the options of
    `kit.group`; called again, it makes a new one.

    Parameters
    ----------
    *tasks, link, timeout_s, cluster
        As in `kit.group`.

    Returns
    -------
    torch.distributed.ProcessGroup
        The default group; `torch.distributed.get_rank()` and all others use it.
    """
    if dist.is_initialized():
        dist.destroy_process_group()
    world = group_of(*tasks, link=link, timeout_s=timeout_s, cluster=cluster)
    store, rank, size = _entered(world)
    dist.init_process_group(_BACKEND, store=store, rank=rank, world_size=size)
    return dist.group.WORLD


def traffic(group: Any = None) -> GroupTraffic:
    """Return the bytes of a process group so far, measured and by formula; asks all.

    Parameters
    ----------
    group : torch.distributed.ProcessGroup, optional
        By default the default one.
    """
    process_group = group or dist.group.WORLD
    if not isinstance(process_group, TaskProcessGroup):
        raise FailedPreconditionError(
            "this is not a process group of psring; make one with kit.torch.init(), or "
            'with torch.distributed.init_process_group("psring").'
        )
    links = process_group.calls.traffic.links + process_group.messages.traffic.links
    return GroupTraffic(links)


class _NoStore(dist.Store):  # type: ignore[misc]
    """Says what to write instead of torch's store of keys."""

    def set_timeout(self, timeout: object) -> None:
        """Nothing waits here."""

    def _refuse(self, *args: object) -> Any:
        raise UnimplementedError(
            "the process group of psring has no store of keys; exchange values with "
            "torch.distributed.all_gather_object or broadcast_object_list."
        )

    set = get = add = check = wait = compare_set = delete_key = num_keys = _refuse


_STORE = _NoStore()  # torch finds what it says by this object, and holds another one


def _entered(world: TaskGroup) -> tuple[Any, int, int]:
    _world[:] = [world]
    # What torch's own starter sets, for programs that read it.
    hosts = world._state.members.hosts or (0,) * world.size
    same = [rank for rank, host in enumerate(hosts) if host == hosts[world.rank]]
    os.environ |= {
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(same.index(world.rank)),
        "LOCAL_WORLD_SIZE": str(len(same)),
    }
    return _STORE, world.rank, world.size


def _make(options: Any, _: Any) -> TaskProcessGroup:
    """Make a process group: the default one first, and then some of its ranks."""
    if not _world:
        raise FailedPreconditionError(
            "this process is not a task of psring, or was started with addresses; call "
            "kit.torch.init() in a cell that begins with %%on worker, in a function of "
            "cluster.call, or with cluster=server in a program of its own."
        )
    world, ranks = _world[0], list(options.global_ranks_in_group)
    tasks = tuple(world.tasks[rank] for rank in ranks) if ranks else world.tasks
    name = f"{world._state.members.id}/torch/{options.group_id}"
    calls = world if not ranks else world._make(name, tasks)
    return TaskProcessGroup(calls, world._make(f"{name}/messages", tasks))


def _rendezvous(url: str, **how: Any) -> Iterator[tuple[Any, int, int]]:
    """Yield store, rank and size: those of this cell, unless addresses are given."""
    if "MASTER_ADDR" in os.environ:
        yield from _by_addresses(url, **how)
    else:
        yield _entered(group_of())


dist.Backend.register_backend(
    _BACKEND, _make, extended_api=True, devices=["cpu", "cuda"]
)
# torch lets one register other schemes, but not answer where no address is given.
_handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
_by_addresses = _handlers[_SCHEME]
_handlers[_SCHEME] = _rendezvous
