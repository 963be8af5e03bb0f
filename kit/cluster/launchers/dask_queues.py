"""What to write for queues that have no launcher here: dask-jobqueue knows them.

Pure.
"""

from __future__ import annotations

from kit.errors import UnimplementedError

# The classes of dask-jobqueue, and how each asks for the queue.
QUEUES = {
    "PBS": 'PBSCluster(queue="short", walltime="1:00:00"',
    "SGE": 'SGECluster(queue="all.q", walltime="1:00:00"',
    "LSF": 'LSFCluster(queue="short", walltime="1:00"',
    "HTCondor": 'HTCondorCluster(disk="1GB"',
}


def lines_for(name: str) -> str:
    """Return the lines that put a cluster into a queue; raises KeyError without one.

    >>> print(lines_for("SGE").splitlines()[0])
    queue = dask_jobqueue.SGECluster(queue="all.q", walltime="1:00:00", cores=1,
    """
    return (
        f"queue = dask_jobqueue.{QUEUES[name]}, cores=1,\n"
        '    memory="4GB", security=True, shared_temp_directory=os.getcwd())\n'
        "queue.scale(jobs=5); client = distributed.Client(queue)\n"
        "client.wait_for_workers(5)\n"
        "cluster = kit.Cluster.from_dask(client, ps=1, worker=4)"
    )


def refuse_queue(name: str) -> None:
    """Raise `UnimplementedError` if `name` is a queue's, in any case of letters."""
    for queue in QUEUES:
        if queue.lower() == name.lower():
            raise UnimplementedError(
                f"there is no launcher for {queue}: dask-jobqueue submits to it, and "
                f"the tasks run beside its workers (pip install dask-jobqueue). "
                f"Write:\n{lines_for(queue)}"
            )
