"""The all-reduce comparison, at a tiny size: every system gives what it should.

Over memory and over streams. Results are broken on purpose too, to see that this is
noticed. Nothing here is timed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import allreduce, directions
from benchmarks.allreduce_links import Door, introduce
from benchmarks.allreduce_rank import Rank
from benchmarks.rank_group import RanksFailed, rank_group
from kit.wire.handshake.credentials import Credentials

NAN = float("nan")
WAYS = ("one thread", "threads")
IN_MEMORY = {"copy": 1.0, "ring": 2.0, "mesh": 2.5, "ring-step": 4.0, "ps": 3.0}


@pytest.mark.slow
def test_every_system_finds_the_mean_of_what_the_ranks_bring() -> None:
    streamed = ("bytes tcp", "bytes aes-gcm", "mesh tcp")
    result = allreduce.compare(
        2, [4096, 1 << 20], rounds=1, peers={}, streamed=streamed
    )

    systems = {"copy", "ring", "mesh", "ring-step", "ps", *streamed}
    assert {size: set(took) for size, took in result.items()} == {
        4096: systems,
        1 << 20: systems,
    }
    assert all(t > 0 for took in result.values() for ts in took.values() for t in ts)


@pytest.mark.slow
def test_the_busiest_thread_is_found_with_and_without_threads_for_links() -> None:
    turns = directions.compare(2, [1 << 20], rounds=2)

    names = [f"{over} 1 MiB {way}" for over in ("tcp", "aes-gcm") for way in WAYS]
    assert list(turns) == names
    assert [len(rounds) for rounds in turns.values()] == [2] * 4
    for rounds in turns.values():
        assert all(0 < turn.busiest_us <= 2 * turn.all_us for turn in rounds)
    alone, more = turns[names[0]], turns[names[1]]
    # Of one thread, of two ranks; the others share the work.
    assert min(turn.all_us / turn.busiest_us for turn in more) > 1.2
    assert max(turn.all_us / turn.busiest_us for turn in alone) < 1.2


@pytest.mark.slow
def test_groups_are_compared_with_one_stream_a_link_and_with_two() -> None:
    turns = directions.compare(2, [1 << 20], rounds=1, what="group", streams=2)

    assert [len(rounds) for rounds in turns.values()] == [1] * 4
    assert all(turn.busiest_us > 0 for rounds in turns.values() for turn in rounds)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["ring", "mesh", "ring tcp", "ring-step tls"])
def test_an_exchange_gives_every_rank_the_mean_of_all_elements(system: str) -> None:
    with rank_group(system, "benchmarks.allreduce_rank", 3, system) as ranks:
        if " " in system:
            introduce(ranks, system.split()[1])
        order = {"do": "prepare", "n_bytes": 12_000}
        means = ranks.order(**order, values=[1.0, 5.0, 12.0])
        ranks.order(do="measure", repeats=3)
        after = ranks.order(do="look")
        again = ranks.order(**order, values=[2.0, 2.0, 2.0])

    assert means == after == [6.0, 6.0, 6.0]
    assert again == [2.0, 2.0, 2.0]


@pytest.mark.slow
def test_bare_bytes_go_from_each_rank_to_the_next() -> None:
    with rank_group("bytes tls", "benchmarks.allreduce_rank", 3, "bytes tls") as ranks:
        introduce(ranks, "tls")
        order = {"do": "prepare", "n_bytes": 3 << 20}
        came = ranks.order(**order, values=[1.0, 5.0, 12.0])

    assert came == [12.0, 1.0, 5.0]


@pytest.mark.parametrize(("certificate", "kind"), [(False, "tcp"), (True, "aes-gcm")])
def test_ranks_meet_over_tcp_encrypted_if_there_is_a_certificate(
    certificate: bool, kind: str
) -> None:
    secrets = Credentials.new(certificate=certificate).to_plain()
    with ExitStack() as stack:
        doors = [stack.enter_context(closing(Door(rank, secrets))) for rank in range(2)]
        for door in doors:
            door.meet([item.address for item in doors])
        with ThreadPoolExecutor() as threads:
            result = list(threads.map(Door.open, doors))
        for streams in result:
            for stream in streams.values():
                stack.callback(stream.close)

        kinds = [{peer: item.kind for peer, item in each.items()} for each in result]

    assert kinds == [{1: kind}, {0: kind}]


@pytest.mark.parametrize(
    ("system", "result"),
    [
        ("ring", [1.5, 1.0]),
        ("ring tcp", [1.5, NAN]),
        ("copy", [1.0, 1.0]),
        ("bytes tls", [1.0, 2.0]),  # their own, not those of the rank before
    ],
)
def test_an_exchange_that_gives_something_else_is_an_error(
    system: str, result: list[float]
) -> None:
    with pytest.raises(RanksFailed, match=f"{system}: the exchange gave"):
        allreduce.check(system, 2, result)


def test_one_wrong_element_makes_a_result_wrong() -> None:
    values = np.full(100, 1.5, np.float32)
    system: Any = SimpleNamespace(
        array=None, call=lambda: None, values=lambda: values, close=lambda: None
    )
    rank = Rank(lambda n_bytes: system)

    right = rank.prepare(400, 1.0)
    values[50] = 2.0

    assert right == 1.5
    assert np.isnan(rank.look())


def test_an_exchange_lasts_from_the_last_arrival_to_the_last_finish() -> None:
    times = [[[0, 9_000], [20_000, 23_000]], [[4_000, 7_000], [20_000, 22_000]]]

    assert allreduce.durations("ring", 2, times) == [5.0, 3.0]
    assert allreduce.durations("copy", 2, times) == [9.0, 3.0]


def test_an_exchange_is_compared_with_gloo_and_its_limit_where_there_are_any() -> None:
    took = {name: [value] for name, value in IN_MEMORY.items()}

    assert allreduce.row(2, "memory", 4096, took) == (
        *("2", "memory", "4 KiB", "1.0", "2.0", "2.5", "4.0", "3.0"),
        *["missing"] * 3,
        *("2.00", "-", "-", "-", "-", "-", "-"),
    )
    took |= {"bytes tcp": [5.0], "ring tcp": [10.0], "ring-step tcp": [8.0]}
    took |= {"gloo": [20.0], "mpich": [1.0]}

    row = allreduce.row(2, "tcp", 4096, took)

    assert row == (
        *("2", "tcp", "4 KiB", "5.0", "10.0", "-", "8.0", "-"),
        *("20.0", "-", "-"),
        *("2.00", "1.00", "1.00", "-", "-", "2.00", "2.50"),
    )


def test_an_encrypted_exchange_is_compared_with_that_over_tcp() -> None:
    took = {name: [value] for name, value in IN_MEMORY.items()}
    took |= {"ring tcp": [10.0], "ring-step tcp": [20.0], "gloo": [18.0]}
    took |= {
        "bytes aes-gcm": [5.0],
        "ring aes-gcm": [15.0],
        "ring-step aes-gcm": [24.0],
    }

    row = allreduce.row(2, "aes-gcm", 1 << 24, took)

    heads = allreduce.table([row], {}, True).head
    cells = dict(zip(heads, row, strict=True))
    assert cells["ring / ring over tcp"] == "1.50"
    assert cells["ring-step / ring-step over tcp"] == "1.20"
    assert cells["Gloo / ring"] == "1.20"
    assert allreduce.row(2, "memory", 1 << 24, took)[-6:-4] == ("0.20", "0.20")


def test_streams_may_be_chosen_and_the_short_form_has_none_between_many() -> None:
    both = allreduce.STREAMS

    assert allreduce.streamed(2, ["tls"], quick=True) == ["bytes tls", "ring tls"]
    assert allreduce.streamed(4, both, quick=True) == []
    assert allreduce.streamed(2, both, quick=True) == [*allreduce.STREAMED]
    assert allreduce.streamed(4, both, quick=False) == [*allreduce.STREAMED]
