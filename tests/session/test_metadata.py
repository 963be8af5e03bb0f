"""What a traced run tells: each op once, each transfer once, at the receiver."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kit.graph.ops.state.source import identity
from kit.session.client.metadata import RunMetadata
from kit.session.client.session import Session
from kit.trace.trace import Trace
from kit.trace.traffic import TransferKind
from tests.session.scene import PS, W0, W1, at, value


@pytest.fixture
def traced(target: Any) -> RunMetadata:
    """Run a sum of three tasks' values, of which one is used twice on a task."""
    with at(PS):
        a = identity(np.ones(1000, np.float32))
    b = value(W1)
    with at(W0):
        total = (a + b) * a
    with at(W1):
        other = a + total
    metadata = RunMetadata()
    with Session(target) as session:
        session.run([total, other], metadata=metadata)
    return metadata


def test_each_op_is_told_once_with_its_device(traced: RunMetadata) -> None:
    names = Counter(node.node for node in traced.nodes)

    assert set(names.values()) == {1}
    assert {"Identity", "Const_1", "Add", "Mul", "Add_1"} <= set(names)
    by_name = {node.node: node for node in traced.nodes}
    assert by_name["Identity"].device == "/job:ps/replica:0/task:0/device:CPU:0"
    assert by_name["Add_1"].device == "/job:worker/replica:0/task:1/device:CPU:0"
    assert all(0 < node.begin <= node.end for node in traced.nodes)


def test_each_transfer_is_told_once_with_its_bytes(traced: RunMetadata) -> None:
    result = sorted(transfer[:4] for transfer in traced.transfers)

    ps, w0, w1 = PS, W0, W1
    assert result == sorted(
        [
            ("Identity:0", ps, w0, 4000),
            ("Identity:0", ps, w1, 4000),
            ("Const_1:0", w1, w0, 4),
            ("Mul:0", w0, w1, 4000),
        ]
    )
    assert all(0 < transfer.begin <= transfer.end for transfer in traced.transfers)


def test_a_control_edge_is_told_without_bytes(target: Any) -> None:
    first = value(PS)
    with at(W0), first.graph.control_dependencies([first]):
        last = identity(value(W0))
    metadata = RunMetadata()
    with Session(target) as session:
        session.run(last, metadata=metadata)

    (move,) = metadata.transfers
    assert move[:4] == (f"^{first.op.name}", PS, W0, 0)


def test_a_run_that_is_not_traced_tells_nothing(target: Any) -> None:
    tensor = value(PS)
    metadata = RunMetadata()
    with Session(target) as session:
        session.run(tensor)
        assert metadata.nodes == []
        session.run(tensor, metadata=metadata)
        session.run(tensor, metadata=metadata)
    assert len(metadata.nodes) == 1


def test_its_trace_has_the_same_bytes_and_can_be_saved(
    traced: RunMetadata, tmp_path: Path
) -> None:
    trace = traced.trace()

    assert trace.names == ("ps:0", "worker:0", "worker:1")
    kinds = [TransferKind.TENSOR]
    assert trace.sent("ps:0", kinds=kinds) == 8000
    assert trace.received("worker:0", kinds=kinds) == 4004
    assert len(trace.spans) == len(traced.nodes)
    path = tmp_path / "run.json"
    trace.save(path)
    assert Trace.load(path).received("worker:1", kinds=kinds) == 8000
    words = {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    assert "tensor from ps:0" in words
    assert "compute" in words
