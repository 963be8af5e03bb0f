"""`kit.recommend`: which topology has the shortest steps, and why.

It rehearses each that the tasks can form. `kit.train(topology="auto")` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, SupportsIndex

from kit.errors import InvalidArgumentError, KitError, ResourceExhaustedError
from kit.exchange.compression.compressor import Compressor
from kit.exchange.topologies.time_model import Rates
from kit.exchange.topologies.topology import has_own_order, registered
from kit.handles import names_its_arguments
from kit.markup import Html, in_cell, rows_table
from kit.rehearsal.rehearsal import Rehearsal, time_text
from kit.rehearsal.rehearse import Supposed, play, rates_of
from kit.rehearsal.sizes import Compute, Hosts, Sizes, compute_of, tasks_of
from kit.task import Task
from kit.training.arguments import whole
from kit.training.core.job import Job
from kit.training.optimizers.rule import Optimizer
from kit.wire.shaping import FULL_SPEED, LinkSettings

if TYPE_CHECKING:
    import pandas as pd

# Those of a usual machine, not of this one: with measured rates, the choice would
# depend on the machine, and on what else it was doing.
USUAL = Rates(0.0, 1e-4, 1e-10, 5e-11, 5e-11)
_SAME = 1.02  # steps that differ by less are as good as each other


@dataclass(frozen=True)
class Recommendation:
    """A topology, the reason in a sentence, and predictions for all others.

    Attributes
    ----------
    topology : str
        The one to take; a word to give to `kit.train`.
    reason : str
        Why, with predicted times and exact bytes and messages.
    rehearsals : dict of str to Rehearsal
        One for each topology that the tasks can form, the quickest first.
    left_out : dict of str to str
        Why others were not rehearsed.
    """

    topology: str
    reason: str
    rehearsals: dict[str, Rehearsal]
    left_out: dict[str, str]

    @property
    def best(self) -> Rehearsal:
        """The rehearsal of the topology to take."""
        return self.rehearsals[self.topology]

    def frame(self) -> pd.DataFrame:
        """Return one row a topology; the columns say what is predicted."""
        import pandas as pd

        return pd.DataFrame(
            [
                (
                    plan.seconds,
                    plan.exchange,
                    plan.n_bytes,
                    plan.busiest[1],
                    plan.n_in_row,
                )
                for plan in self.rehearsals.values()
            ],
            columns=[
                "predicted_seconds",
                "predicted_exchange",
                "bytes",
                "busiest_task_bytes",
                "messages_in_row",
            ],
            index=pd.Index(self.rehearsals, name="topology"),
        )

    def __str__(self) -> str:
        return self.reason

    def __repr__(self) -> str:
        return f"<Recommendation: {self.reason}>"

    def _repr_html_(self) -> Html:
        heads = (
            "topology",
            "predicted: a step",
            "exact: bytes a step",
            "exact: of the busiest task",
            "exact: messages in a row",
        )
        rows = [
            (
                name,
                time_text(plan.seconds),
                *(f"{n:,}" for n in (plan.n_bytes, plan.busiest[1], plan.n_in_row)),
            )
            for name, plan in self.rehearsals.items()
        ]
        return in_cell(rows_table(self.reason, heads, rows))


@names_its_arguments
def recommend(
    model_or_sizes: Sizes,
    *,
    ps: SupportsIndex = 0,
    worker: SupportsIndex = 4,
    link: str = "",
    link_within: str = "",
    compute: Compute = 0.0,
    hosts: Hosts = None,
    optimizer: Optimizer | str = "gradient_descent",
    placement: str = "round_robin",
    compress: Compressor | str | None = None,
    rates: Rates | None = None,
) -> Recommendation:
    """Rehearse every topology that these tasks can form, and name the quickest.

    Parameters
    ----------
    model_or_sizes : dict of str to array, list of shapes, int, or callable
        As for `kit.rehearse`, and so are all others.

    Returns
    -------
    Recommendation
        The topology, the reason, and the rehearsals.

    Raises
    ------
    InvalidArgumentError
        An argument cannot be used.

    Notes
    -----
    Takes as long as `kit.rehearse` for each topology. If the steps of several
    topologies differ by less than 2 %, it names the one with the fewest messages in a
    row.

    Examples
    --------
    >>> import kit
    >>> kit.recommend(4000, worker=8, hosts=8, link="1gbit,5ms").topology
    'mesh'
    >>> kit.recommend([(6_250,)] * 16, ps=16, worker=4, link="100mbit").topology
    'ps'
    """
    terms = tasks_of(whole("ps", ps), whole("worker", worker)), hosts, link
    supposed = Supposed(model_or_sizes, *terms, optimizer, placement, compress)
    times = compute_of(compute, supposed.tasks)
    within = LinkSettings.parse(link_within)
    return choose(supposed.job, times, rates_of(rates), within)


def choose(
    job: Callable[[str], Job],
    compute: Mapping[Task, float],
    rates: Rates = USUAL,
    within: LinkSettings = FULL_SPEED,
) -> Recommendation:
    """Return the topology with which a job is quickest.

    `job` makes it with a topology, or raises `InvalidArgumentError` for one that its
    tasks cannot form. If they can form none, the first such error is raised; so it is
    for steps that cannot be rehearsed, asynchronous or without some gradients.
    """
    rehearsals: dict[str, Rehearsal] = {}
    left_out: dict[str, KitError] = {}
    for topology in registered():
        try:
            if not topology.agrees:
                raise InvalidArgumentError(
                    "workers do not agree after a step, so it takes more steps, and "
                    "how many depends on the model: name it to have it."
                )
            if has_own_order(topology):
                raise InvalidArgumentError(
                    "it adds in an order of its own, so its result has other last bits "
                    "than that of all others: name it to have it."
                )
            made = job(topology.name)
            if made.schedule.is_served:
                raise InvalidArgumentError(
                    "what is rehearsed are steps of all workers together; with "
                    "sync=False or aggregate= name the topology, such as 'ps'."
                )
            rehearsals[topology.name] = play(made, compute, rates, within)
        except (InvalidArgumentError, ResourceExhaustedError) as error:
            left_out[topology.name] = error
    if not rehearsals:
        raise next(iter(left_out.values()))
    least = min(rehearsal.seconds for rehearsal in rehearsals.values())
    near = [plan for plan in rehearsals.values() if plan.seconds <= least * _SAME]
    # Each message in a row is one more that a busy machine may be late to take.
    best = min(near, key=lambda rehearsal: (rehearsal.n_in_row, rehearsal.seconds))
    others = sorted(
        rehearsals.values(), key=lambda plan: (plan is not best, plan.seconds)
    )
    return Recommendation(
        best.topology,
        _reason(*others),
        {other.topology: other for other in others},
        {name: error.message for name, error in left_out.items()},
    )


def _reason(best: Rehearsal, *others: Rehearsal) -> str:
    """Return why the best one is: which of its numbers are below the next one's."""
    said = f"{best.topology}: predicted {time_text(best.seconds)} a step"
    if not others:
        return f"{said}; these tasks can form no other topology."
    following = others[0]
    said += f", {following.topology} {time_text(following.seconds)}"
    (task, most), (_, theirs) = best.busiest, following.busiest
    why = []
    if best.n_bytes < following.n_bytes:
        why.append(f"all tasks send {best.n_bytes:,} bytes, not {following.n_bytes:,}")
    if most < theirs:
        why.append(f"the busiest, {task}, moves {most:,} one way, not {theirs:,}")
    if best.n_in_row < following.n_in_row:
        rows = f"{best.n_in_row:,} messages follow on each other"
        why.append(f"{rows}, not {following.n_in_row:,}")
    if why:
        return f"{said}; {' and '.join(why)}."
    if following.seconds <= best.seconds * _SAME:
        return f"{said}, which is as good."
    return f"{said}; its messages wait less for each other."
