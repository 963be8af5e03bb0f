"""What may go wrong around a cluster, in a real kernel, and what it says then.

The kernel has neither ipywidgets nor jupyter_bokeh, so that all of this is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.magics.kernel import Kernel, kernel

pytestmark = [
    pytest.mark.engines,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.usefixtures("loop_of_the_client"),
]

HIDE = "import sys\nsys.modules['ipywidgets'] = sys.modules['jupyter_bokeh'] = None\n"
NO_CLUSTER = "FailedPreconditionError: no cluster is running; start one with %%cluster"
SMALL = """from kit import machine
machine_s_memory = machine.memory
machine.memory = lambda: machine.MachineMemory(1024, 450, is_contained=True)
"""
LARGE_AGAIN = "machine.memory = machine_s_memory"
TRAIN = """%%cluster --reuse
import numpy as np
import kit
def step(params, batch):
    return 0.0, {"w": np.zeros(10)}
run = kit.train(step, {"w": np.zeros(10)}, (np.zeros((64, 3)),), topology="ring")
await run
"""


@pytest.fixture(scope="module")
def bare(
    loop_of_the_client: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kernel]:
    """A notebook with the extension, and no cluster."""
    with kernel(tmp_path_factory.mktemp("run")) as result:
        loaded = result.run(f"{HIDE}%load_ext kit")
        assert "run: pip install ipywidgets jupyter_bokeh" in loaded.printed, loaded
        yield result


@pytest.fixture(scope="module")
def notebook(bare: Kernel) -> Iterator[Kernel]:
    """The same with one worker and no parameter server."""
    started = bare.run("%%cluster --ps 0 --worker 1")
    assert started.result.startswith("Cluster ready: worker=1"), started
    yield bare
    bare.run("%cluster stop")


def test_before_any_cluster_each_magic_says_how_to_start_one(bare: Kernel) -> None:
    for cell in ("%%on worker\n1", "%topology ring", "%cluster restart worker:0"):
        answer = bare.run(cell)

        assert answer.status == "error"
        assert answer.traceback.startswith(NO_CLUSTER)
        assert "\n" not in answer.traceback


def test_a_cluster_that_does_not_fit_is_refused_with_the_number_that_would(
    bare: Kernel,
) -> None:
    bare.run(SMALL)
    answer = bare.run("%%cluster --worker 20\nprint('never')")
    bare.run(LARGE_AGAIN)

    assert answer.traceback == (
        "NotEnoughMemory: ps=1, worker=20 needs about 1,420 MiB; 450 MiB of the 1,024 "
        "MiB of this container are free. ps=1, worker=3 would fit."
    )
    assert answer.printed == ""
    assert bare.run("%cluster").printed.startswith("no cluster is running")


def test_one_that_does_not_fit_does_not_end_the_one_that_runs(notebook: Kernel) -> None:
    notebook.run(SMALL)
    answer = notebook.run("%%cluster --restart --worker 20")
    notebook.run(LARGE_AGAIN)

    assert answer.traceback.startswith("NotEnoughMemory: ps=1, worker=20 needs about")
    assert "Cluster ready: worker=1" in notebook.run("%cluster").result


def test_the_memory_that_is_taken_is_shown_beside_the_limit(notebook: Kernel) -> None:
    (shown,) = notebook.run("%cluster").shown

    result = re.search(
        r"memory: (\d+) MiB of the ([\d,]+) MiB of this", shown["text/html"]
    )
    assert result is not None
    assert 20 < int(result[1]) < 1000
    assert int(result[2].replace(",", "")) > int(result[1])


def test_all_of_it_works_as_text_without_widgets(notebook: Kernel) -> None:
    trained = notebook.run(TRAIN)
    looked = notebook.run("%%on worker\nprint('hello')")

    assert trained.status == "ok", trained
    assert "Finished after step" in trained.result
    assert looked.printed == "worker:0 │ hello\n"


def test_a_training_over_servers_that_there_are_not_says_what_to_do(
    notebook: Kernel,
) -> None:
    answer = notebook.run(TRAIN.replace('"ring"', '"ps"'))

    assert answer.traceback.startswith(
        "InvalidArgumentError: topology 'ps' needs a parameter server and there is "
        "none; start the cluster with ps=1, or use topology='ring'."
    )


def test_tab_in_a_kernel_offers_what_may_stand_there(notebook: Kernel) -> None:
    assert notebook.complete("%%cluster --wo") == ["--worker"]
    assert notebook.complete("%%on wor") == ["worker", "worker:0"]
    assert notebook.complete("%topology ri") == ["ring", "ring-whole"]
    assert notebook.complete("%cluster re") == ["restart", "remove"]
    device = "import kit\nwith kit.device('/job:w"
    assert notebook.complete(device) == ["/job:worker", "/job:worker/task:0"]
