"""The server of a rank of MPI: mpiexec or srun has started it, and all the others.

The ranks tell each other their addresses over MPI, so no port has to be free, and none
to be known. Data links use the same ranks (`kit.wire.mpi`).
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, TypeVar

from kit.errors import InvalidArgumentError
from kit.wire.mpi import world

Made = TypeVar("Made", bound=Any)  # a `Server`, which loads this file


def server_of_rank(
    make: Callable[..., Made], ps: int, *, start: bool = True, **options: Any
) -> Made:
    """Return what `make` gives for the task that this rank is; all ranks call this.

    The first `ps` ranks are parameter servers, all others workers. Raises what `world`
    raises, and `InvalidArgumentError` where no rank would compute.
    """
    comm = world()
    rank, size = comm.Get_rank(), comm.Get_size()
    if not 0 <= ps < size:
        raise InvalidArgumentError(
            f"ps={ps} leaves no worker of {size} ranks; start more, such as "
            f"mpiexec -n {max(ps, 0) + 2}, or give a number from 0 to {size - 1}."
        )
    job, index = ("ps", rank) if rank < ps else ("worker", rank - ps)
    here = platform.node()
    host = here if len(set(comm.allgather(here))) > 1 else "127.0.0.1"
    spec = {job: {index: f"{host}:0"}}
    server = make(spec, job, index, start=False, **options)
    server.bind()
    addresses = comm.allgather(str(server.address))
    jobs = {"ps": addresses[:ps], "worker": addresses[ps:]}
    server.connect({name: jobs[name] for name in jobs if jobs[name]})
    if start:
        server.start()
    return server
