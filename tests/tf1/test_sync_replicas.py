"""Synchronous replicas: rows, slots, processes, failures; the traces are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from kit import tf1 as tf
from kit.testing.task_process import until
from tests.session.scene import in_thread
from tests.tf1.replica_processes import chief_here, line, worker_process
from tests.tf1.replicas import Replica, all_train, becomes, replicas, state
from tests.tf1.servers import cluster


@contextmanager
def pair(n_required: int, **options: Any) -> Iterator[list[Replica]]:
    """Give two replicas on servers of this process."""
    servers = cluster(ps=1, worker=2)
    spec = servers["ps"][0].server_def.cluster
    targets = [server.target for server in servers["worker"]]
    with replicas(spec, targets, n_required, **options) as made:
        yield made


@pytest.mark.slow
def test_lonely_replica_waits_for_the_other_and_its_gradient_is_not_lost() -> None:
    with pair(2, num_tokens=0) as both:
        with pytest.raises(tf.errors.DeadlineExceededError, match="sync_token_q"):
            both[0].train(6.0, within_s=0.2)
        assert state(both) == (0.0, 0, 0, [0, 0])

        token = both[1].train(2.0)

        assert token == 1
        assert becomes(both, (-4.0, 1, 1, [0, 1])) == (-4.0, 1, 1, [0, 1])


@pytest.mark.slow
def test_rows_are_averaged_over_the_replicas_that_had_them() -> None:
    """The gradient of each row that is fed is the last one of them."""

    def loss(v: Any, fed: Any) -> Any:
        return tf.reduce_sum(tf.gather(v, tf.cast(fed, tf.int32))) * fed[-1]

    with pair(2, shape=[4], loss=loss) as both:
        all_train([(both[0], [0.0, 1.0]), (both[1], [1.0, 3.0])])

        after = ([-1.0, -2.0, 0.0, -3.0], 1, 2, [0, 0])
        assert becomes(both, after) == after


@pytest.mark.slow
def test_wrapped_optimizer_gets_means_and_keeps_its_slots() -> None:
    def momentum() -> Any:
        return tf.train.MomentumOptimizer(0.5, 0.9)

    v, slot = 0.0, 0.0
    with pair(2, num_tokens=0, wrapped=momentum) as both:
        for number, (x, y) in enumerate([(1.0, 3.0), (-2.0, 6.0), (0.0, 1.0)], 1):
            all_train([(both[0], x), (both[1], y)])
            slot = 0.9 * slot + (x + y) / 2
            v -= 0.5 * slot
            until(lambda number=number: state(both)[1] == number)  # type: ignore[misc]

        chief = both[0]
        kept = chief.optimizer.get_slot(chief.v, "momentum")
        seen = chief.session.run([chief.v, kept])

    assert chief.optimizer.get_slot_names() == ["momentum"]
    assert chief.optimizer.variables() == []  # of the default graph, which is another
    np.testing.assert_allclose(seen, [v, slot], rtol=1e-6)


@pytest.mark.slow
def test_chief_thread_ends_with_its_coordinator_while_it_waits_for_gradients() -> None:
    with pair(2, num_tokens=0) as both:
        both[0].coord.request_stop()
        both[0].coord.join(stop_grace_period_secs=3600.0)  # longer than any test

        assert both[0].coord.joined


# -- processes of their own ------------------------------------------------------------


@pytest.mark.slow
def test_replicas_in_processes_of_their_own_agree_on_every_step() -> None:
    with (
        chief_here(2, 1) as (chief, ps, workers),
        worker_process(ps, workers, 1, 2) as other,
    ):
        chief.begin()
        # Whoever is late may find that the chief has taken both tokens of a step.
        seen = in_thread(lambda: [int(line(other)) for _ in range(5)])
        tokens: list[int] = []
        while not seen.done() or len(tokens) < 12:
            tokens.append(chief.train(1.0))
        theirs = seen.result()
        v, step = chief.session.run([chief.v, chief.step])

    assert tokens == sorted(tokens)
    assert theirs == sorted(theirs)
    assert step >= 5
    assert v == -step
