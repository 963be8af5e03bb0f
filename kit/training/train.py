"""`kit.train`: begin a training on a cluster and return at once with a handle.

A step function takes `(params, batch)`: a dict of read-only arrays, and this worker's
split of the mini-batch, a tuple of arrays. The arrays are this step's: the next one
writes over them, so copy what you keep. It returns the loss, the mean over the
split, and the gradients. It may be a generator that yields `(name, gradient)`, last
layers first, and returns the loss; then the exchange goes on beside the rest. A
parameter called `grads` gets a dict of arrays to write, which saves a copy: the step
returns the loss alone then, or yields names. They are zeros when the step begins, and
each has to be written, if only in part. `return loss, gradients, {"accuracy": a}` gives
more of a step, see `kit.training.worker.worker`.

A parameter called `rng` gets a `numpy.random.Generator` for dropout and noise. What it
draws depends on the seed, the step and the worker alone, so a training with chance in
it can be repeated and replayed, bit for bit, with any topology. It is

    Generator(Philox(key=[seed, step], counter=[0, piece, 2, worker]))

with words of 64 bits. Steps and workers count from 0; without `sync` the step is the
number of the worker's own mini-batch, with `local_steps=H` it is that of the training's
mini-batch: step H + 0, 1, ... H - 1. Pieces count from 0 (`accumulate`).

A parameter called `state` gets a dict of the worker's own, empty before the first step,
for arrays and numbers that the step carries on: running averages, a hidden state. In an
elastic training it moves with its worker and is as it was when a step is done again. A
checkpoint holds it for each worker, so a training that resumes needs the same workers;
`kit.load_checkpoint(folder).states["worker:0"]` is that of one. The slots of an
optimizer of `local_steps` are kept in the same way, under "optimizer/momentum/w".

A parameter called `scale` gets the number by which the step multiplies its loss before
it computes gradients, and not the loss that it returns; `compress=kit.LossScale()`
gives it, and bears gradients that are infinite.

A loss that is a tensor is the mean over the examples. Each worker computes it and its
gradients by itself, wherever the graph places them. `{(x, y): batches}` takes all kinds
of data. Variables begin as they say, drawn with `seed`, or as in `session`;
`kit.load_variables` sets them.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, Protocol, SupportsIndex, TypedDict, Unpack, overload

from kit.errors import FailedPreconditionError, InvalidArgumentError, noted_at
from kit.exchange.compression.compressor import Compressor
from kit.exchange.layout import specs_of
from kit.exchange.topologies.topology import AUTO
from kit.features import FeatureOptions, load, load_if_there
from kit.graph.array_protocol import ArrayProtocol
from kit.handles import names_its_arguments
from kit.hooks import SessionRunHook
from kit.session.client.session import Session
from kit.settings import current
from kit.task import Task
from kit.training.arguments import (
    check_device,
    check_scale,
    check_step,
    checked_params,
    checked_sync,
    compression_of,
    optimizers_of,
    quorum_of,
    whole,
)
from kit.training.client.run import Run, TrainingRecorder
from kit.training.core.axes import OneGeneration
from kit.training.core.job import Job, Work
from kit.training.optimizers.rule import Optimizer
from kit.training.worker.worker import STATE, requested
from kit.wire.shaping import LinkSettings

Step = Callable[..., Any]


class Trains(Protocol):
    """What trainings run on: a `Cluster`, or a `Server` of a cluster without one."""

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in the order of the spec."""

    @property
    def hosts(self) -> Sequence[str]:
        """The host of each of them, by a name; empty if all are on one."""

    def launch(self, job: Job, work: Work) -> Run:
        """Begin a training on its tasks."""


_current: Callable[[], Trains] | None = None


def set_current(find: Callable[[], Trains]) -> None:
    """Say how the current cluster is found; `kit.cluster` does, when it is imported."""
    global _current  # the layer above registers itself here, once
    _current = find


class TrainOptions(TypedDict, total=False):
    """What `kit.train` takes by name, in both of its forms."""

    optimizer: Optimizer | str
    topology: str
    steps: SupportsIndex
    batch: SupportsIndex
    seed: SupportsIndex
    sync: bool
    aggregate: SupportsIndex | None
    staleness: SupportsIndex | None
    accumulate: SupportsIndex
    local_steps: SupportsIndex | None
    outer: Optimizer | str | None
    compress: Compressor | str | None
    link: str
    placement: str
    device: str
    checkpoint: str | PathLike[str] | FeatureOptions | None
    restore: str | int | bool | None
    hooks: Iterable[SessionRunHook]
    elastic: bool | FeatureOptions
    record: str | PathLike[str] | FeatureOptions | None
    cluster: Trains | None


@overload
def train(
    step: Step,
    params: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    data: Any,
    **options: Unpack[TrainOptions],
) -> Run: ...


@overload
def train(
    loss: ArrayProtocol,
    data: Mapping[Any, Any],
    /,
    *,
    session: Session | None = ...,
    **options: Unpack[TrainOptions],
) -> Run: ...


@names_its_arguments
def train(
    step: Step | ArrayProtocol,
    params: Any = None,
    data: Any = None,
    *,
    optimizer: Optimizer | str = "gradient_descent",
    topology: str = "ps",
    steps: SupportsIndex = 100,
    batch: SupportsIndex = 64,
    seed: SupportsIndex = 0,
    sync: bool = True,
    aggregate: SupportsIndex | None = None,
    staleness: SupportsIndex | None = None,
    accumulate: SupportsIndex = 1,
    local_steps: SupportsIndex | None = None,
    outer: Optimizer | str | None = None,
    compress: Compressor | str | None = None,
    link: str = "",
    placement: str = "round_robin",
    device: str = "cpu",
    checkpoint: str | PathLike[str] | FeatureOptions | None = None,
    restore: str | int | bool | None = None,
    hooks: Iterable[SessionRunHook] = (),
    elastic: bool | FeatureOptions = False,
    record: str | PathLike[str] | FeatureOptions | None = None,
    cluster: Trains | None = None,
    session: Session | None = None,
) -> Run:
    """Train a model over the tasks of a cluster; return at once with a `Run`.

    The training goes on in the tasks. Wait for it with `run.wait()` or `await run`,
    which also raise what it fails with.

    Parameters
    ----------
    step : callable or Tensor
        `step(params, batch)` returns the loss, the mean over its split of the
        mini-batch, and the gradients: a dict by name, or a list in the order of
        `params`; arrays of numpy, cupy, torch, jax or tensorflow. It may also be a
        generator, fill a parameter called `grads`, draw from one called `rng`, carry
        something on in one called `state`, or scale its loss by one called `scale`. A
        tensor is a loss whose variables are trained; give `kit.train(loss, {x: images,
        y: labels})` then.
        All forms are described in `kit.training.train`.
    params : dict of str to array, or callable
        The initial values, float32 or float64 and finite, or a function that returns
        them.
    data : tuple of arrays, or iterable of mini-batches
        Arrays of numpy or dask whose first axis is the examples. Each worker reads
        only its own rows, copies that the step may write into.
    optimizer : str or Optimizer, default "gradient_descent"
        A name ("gradient_descent", "momentum", "adagrad", "rmsprop", "adam", "adamw",
        "lion", "lamb", "lars") or an object such as `kit.Adam(0.001)`, whose learning
        rate may be a function of the step, such as
        `kit.Cosine(0.001, steps=500, warmup=50)`.
    topology : str, default "ps"
        How gradients meet: "ps", "ring", "mesh", "ring-whole", "hierarchical", "tree",
        "recursive-doubling", or one that you have registered. With `local_steps`,
        "gossip" lets each worker take the mean of its own and its two neighbours'
        parameters: workers do not agree until the last step, which is done on a ring.
        "auto" takes the one whose steps `kit.recommend` predicts to be the shortest, by
        `link` and the sizes of the parameters; `run.recommendation` says which, and
        why. Can be changed while the training runs: `run.topology = "ring"`.
    steps : int, default 100
        Updates in total, including those before a checkpoint that is resumed from.
    batch : int, default 64
        Examples in a mini-batch, which all workers share.
    seed : int, default 0
        Decides the order of the examples, and what a graph or the `rng` of a step
        draws.
    sync : bool, default True
        True: every update uses one whole mini-batch. False: each worker goes at its
        own pace, and `steps` counts the updates of all; needs parameter servers.
    aggregate : int, optional
        How many gradients make a step: the first ones; late ones are dropped (backup
        workers). None waits for all of them.
    staleness : int, optional
        With `sync=False`: a worker that has made more than so many updates more than
        the slowest one waits for it. Needs one parameter server.
    accumulate : int, default 1
        In how many pieces a worker computes its split of a mini-batch, one after the
        other, to need the memory of one piece. The gradient is that of the whole but
        for rounding; it needs one more array of the size of the parameters.
    local_steps : int, optional
        How many steps each worker makes by itself before all exchange, each on its
        split of another mini-batch. `optimizer` makes these steps, with slots of the
        worker's own. What travels is how far its parameters have moved, and a step of
        the training is one exchange: `steps`, hooks and metrics count these, and
        loss and measures are the means over the local steps. Needs `sync`.
    outer : str or Optimizer, optional
        With `local_steps` only: what is done with the mean of the moves. By default
        the parameters become the mean of the workers' parameters.
        `kit.Momentum(0.7, 0.9, use_nesterov=True)` is that of DiLoCo.
    compress : str or Compressor, optional
        Send gradients in fewer bytes: "float16", "int8", `kit.TopK(0.01)`,
        `kit.PowerSGD(4)`, or an object of your own class of `kit.exchange.Compressor`.
        `kit.ClipByNorm(1.0)` sends them whole and clips their mean;
        `kit.LossScale()` is for steps that compute in float16 (`scale`), and
        `kit.Median()` and the like take something else than the mean.
        What a gradient loses by it is added to the worker's next one. Each worker then
        updates all parameters. Needs `sync` and the gradients of all workers.
    link : str, default ""
        Speed of the links, as "bandwidth,latency,jitter": "1gbit", "100mbit,5ms"; on
        several hosts, of those between hosts. Empty for the speed that the cluster was
        given, or else full speed.
    placement : {"round_robin", "greedy"}
        How parameters are dealt out to the parameter servers.
    device : {"cpu", "gpu"}
        Where workers compute. With "gpu" the parameters, gradients and slots of each
        worker are on a GPU of its host, the next one for each worker there, and shared
        where there are fewer. The step function gets arrays of cupy, and returns
        gradients of cupy or torch from there, or others that are copied. What of the
        other options keeps more than that stays on the host, and the parameters are
        brought to the GPU for each step.
    checkpoint : str, PathLike or Checkpoints, optional
        The folder in which to save. If it holds a good checkpoint, the training
        resumes from it, on any number of tasks and with any topology.
    restore : str, int or bool, optional
        "step-400" or 400 goes back to that checkpoint; False begins afresh and gives
        up those that the folder has once a new one is saved. By default the newest good
        one is used.
    hooks : iterable of SessionRunHook
        Called around each step of the first worker, in its process: what a hook
        gathers there does not change the object here. What several hooks and the step
        function share here they share there too. Loggers, such as
        `kit.hooks.TensorBoardHook`, are called here.
    elastic : bool or Elastic, default False
        Whether the training survives the loss of tasks: it goes on with those that
        are left, from a copy of its state in their memory. With `sync`, the result
        has the bits of an undisturbed training.
        `run.losses` says what was lost, `run.resize` spreads it over more or fewer
        tasks. `kit.Elastic(...)` begins it with other numbers of logical workers, or
        with tasks to spare. Costs three copies of its state a second at most.
        `hooks` hear of each step once; if the first worker's process is lost they
        go on in another one, as they were given.
    record : str, PathLike or Recording, optional
        A new folder to record the training to: `kit.load_run` shows it again,
        `kit.replay` computes it again, `kit.diff` compares two. `kit.Recording(...)`
        sets more, such as whether to store the data. Slows steps by a few per cent.
    cluster : Cluster or Server, optional
        Where to train; by default the cluster that is running. A worker of a cluster
        without a notebook passes its own `Server`.
    session : Session, optional
        With a tensor only: the session whose variables give the initial values.

    Returns
    -------
    Run
        The handle: its loss, step, trace and parameters, and its controls.

    Raises
    ------
    InvalidArgumentError
        An argument cannot be used. Nothing has begun.
    ClusterBusy
        Another training is running on these tasks.
    NotFinite
        An initial value is NaN or infinite.

    Notes
    -----
    What steps and hooks print, log or warn is in the log of their task
    (`cluster.log("worker:1")`). Ten lines a second of each task's stdout and of its
    stderr are shown here too, by its name.

    In a synchronous training all topologies give the same bits, but for "gossip", and
    "tree" and "recursive-doubling", which add in orders of their own. With P bytes of
    parameters and n workers, each worker sends and receives P bytes in a step with
    parameter servers, 2 (n-1)/n P bytes on a ring or mesh, and 2 P with gossip; with
    `compress`, P are the bytes of what travels in their place. `aggregate` follows
    Chen et al., "Revisiting distributed synchronous SGD", arXiv:1604.00981, 2016; the
    papers behind `compress` are named in `kit.exchange.compression`.
    With `local_steps=H` a mini-batch costs 1/H of the bytes: local SGD, Stich,
    arXiv:1805.09767, 2018; DiLoCo, Douillard et al., arXiv:2311.08105, 2023. Gossip is
    D-PSGD, Lian et al., arXiv:1705.09056, 2017.

    Examples
    --------
    >>> import kit, numpy as np
    >>> from kit.testing.cluster import local_cluster
    >>> def step(params, batch):
    ...     x, y = batch
    ...     error = x @ params["w"] - y
    ...     return (error**2).mean(), {"w": 2 * x.T @ error / len(y)}
    >>> data = np.eye(4), np.arange(4.0)
    >>> with local_cluster(ps=1, worker=2) as cluster:  # in this process
    ...     run = kit.train(step, {"w": np.zeros(4)}, data, batch=4, cluster=cluster)
    ...     run.wait().step
    100
    """
    work = _work(step, params, data, session, seed)
    policy, adapters = (
        "kit.training.features.checkpointing.policy",
        "kit.training.features.hooks.adapters",
    )
    checkpoints = _made(f"{policy}:checkpoints_of", checkpoint)
    if not isinstance(hooks, tuple) or hooks:
        work.hooks = load(f"{adapters}:hooks_of")(hooks, work.step)
        checkpoints = load(f"{adapters}:with_savers")(checkpoints, work.hooks)
    compressor_of = "kit.exchange.compression.quantization:compressor_of"
    work.compressor = _made(compressor_of, compress)
    check_scale(work.step, work.compressor, local_steps)
    check_device(work.step, device, record)
    on = running() if cluster is None else checked_cluster(cluster)
    agreed = {
        **optimizers_of(optimizer, local_steps, outer),
        "accumulate": whole("accumulate", accumulate),
        "synchronous": checked_sync(sync),
        "aggregate": quorum_of(aggregate),
        "staleness": None if staleness is None else whole("staleness", staleness),
        "link": str(LinkSettings.parse(link)),
        "placement": placement,
        "device": device,
        "checkpoints": checkpoints,
        "restore": _made(f"{policy}:restore_of", restore, checkpoints) or "",
        "steps": whole("steps", steps),
        "batch": whole("batch", batch),
        "seed": whole("seed", seed),
    }
    # The last: it makes the folder.
    recorder = _made("kit.recording.recorder:recorder_of", record, work)
    try:
        return _begin(on, work, elastic, recorder, topology, agreed)
    except BaseException as error:
        if recorder is not None:
            with noted_at(error):
                recorder.give_up()
        raise


def _made(where: str, value: Any, *more: Any) -> Any:
    """Return what a feature makes of an argument; None where it is not given."""
    return None if value is None else load(where)(value, *more)


def _begin(
    cluster: Trains,
    work: Work,
    elastic: bool | FeatureOptions,
    recorder: TrainingRecorder | None,
    topology: str,
    agreed: dict[str, Any],
) -> Run:
    run_id = secrets.token_hex(16)
    tasks, hosts = tuple(cluster.tasks), tuple(cluster.hosts)
    generation = OneGeneration()
    if elastic is not False:
        members_of = load("kit.training.features.elastic.options:members_of")
        tasks, hosts, generation = members_of(elastic, tasks, hosts, run_id)
    elif 0 < agreed["aggregate"] < sum(task.job != "ps" for task in tasks):
        staying = load_if_there("kit.training.features.elastic.options:staying")
        generation = staying(run_id, tasks) if staying else generation
    specs = specs_of(work.params or {})
    agreed["keeps_state"] = STATE in requested(work.step)
    work.compressor, compressed = compression_of(
        work.compressor, agreed["optimizer"], specs, tasks
    )
    agreed |= compressed

    def job_with(topology: str) -> Job:
        return Job(
            run=run_id,
            tasks=tasks,
            generation=generation,
            hosts=hosts,
            specs=specs,
            topology=topology,
            settings=settings,
            **agreed,
        )

    settings = current() if recorder is None else recorder.settings(current())
    # The tasks were started with it: so it stands in what is shown of the training.
    insecure = getattr(cluster, "insecure", settings.insecure)
    settings = settings.replace(insecure=insecure)
    if work.hooks and work.hooks.look_for_nan:
        settings = settings.replace(nan_loss=True)
    chosen = None
    if topology == AUTO:
        # What a cluster makes of no link when it begins the training.
        agreed["link"] = agreed["link"] or getattr(cluster, "link", "")
        chosen = load("kit.rehearsal.recommend:choose")(job_with, {})
        topology = chosen.topology
    job = job_with(topology)
    if recorder is not None:
        recorder.take(job)  # refuses what cannot be recorded, before anything has begun
    run = cluster.launch(job, work)
    run.began(work, recorder)
    run.recommendation = chosen
    run.show_progress(work.hooks)
    if job.checkpoints is not None:
        run.look()  # else `resumed_from` would not be known before the first news
        load("kit.experiments.earlier:follow")(run)
        resumed = run.resumed_from
        if resumed is not None and (resumed.passed_over or resumed.differs):
            warnings.warn(f"the training {resumed}", stacklevel=4)
    return run


def _work(
    step: Step | ArrayProtocol,
    params: Any,
    data: Any,
    session: Session | None,
    seed: SupportsIndex,
) -> Work:
    if isinstance(step, ArrayProtocol):
        chosen_data = data if params is None else params
        made = load("kit.training.features.graph_step.loss:work_of")
        work = made(step, chosen_data, session, whole("seed", seed))
        return Work(work.step, work.data, checked_params(work.params))
    if session is not None:
        raise InvalidArgumentError(
            "session= gives the initial values of a tensor's variables; a step "
            "function begins with `params`."
        )
    check_step(step)
    values = checked_params(params() if callable(params) else params)
    return Work(step, data, values)


def checked_cluster(cluster: Trains) -> Trains:
    """Return it; raises `InvalidArgumentError` for what nothing can be trained on."""
    if isinstance(cluster, type) or not hasattr(cluster, "launch"):
        raise InvalidArgumentError(
            f"cluster is {cluster!r}; give one that runs: cluster = kit.Cluster(ps=1, "
            f"worker=3).start(), a kit.Server of your own, or nothing for the current "
            f"one."
        )
    return cluster


def running() -> Trains:
    """Return the current cluster; raises `FailedPreconditionError` without one."""
    if _current is None:
        raise FailedPreconditionError(
            "no cluster is running; start one: cluster = kit.Cluster(ps=1, "
            "worker=3).start(), or %%cluster in a notebook."
        )
    return _current()
