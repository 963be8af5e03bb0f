"""The progress of a training in a real notebook: one output that is written anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.notebooks.kernel import execute, of_cells

pytestmark = pytest.mark.slow

IN_KIT_TRAIN = (
    """
import kit
from kit.hooks import LoggingTensorHook
from tests.training.hook_scene import Gate, begin
from tests.training.toy import quick_cluster

held = quick_cluster()
cluster = held.__enter__()
hook = LoggingTensorHook(["global_step"], every_n_iter=1)
gate = Gate()
run = begin(cluster, gate, hook, steps=300)
""",
    # The client that runs the notebook takes no notice of what comes between two cells.
    """
gate.open()
print(run.wait(60).state)
_ = held.__exit__(None, None, None)
""",
)

IN_A_SESSION = (
    """
from kit import tf1 as tf

tf.logging.set_verbosity(tf.logging.INFO)
step = tf.train.get_or_create_global_step()
count = tf.assign_add(step, 1)
hooks = [
    tf.train.StopAtStepHook(last_step=300),
    tf.train.LoggingTensorHook(["global_step:0"], every_n_iter=1),
]
session = tf.train.MonitoredTrainingSession(hooks=hooks)
while not session.should_stop():
    session.run(count)
session.close()
""",
    "print('done')",
)


@pytest.mark.parametrize(
    ("cells", "last"),
    [
        (IN_KIT_TRAIN, "global_step = 299"),
        (IN_A_SESSION, r"global_step:0 = (299|300)"),
    ],
    ids=["kit.train", "a session"],
)
def test_three_hundred_lines_are_one_output_of_the_cell_that_began_it(
    tmp_path: Path, cells: tuple[str, str], last: str
) -> None:
    notebook = of_cells(cells)

    execute(notebook, tmp_path)

    first, second = (cell.outputs for cell in notebook.cells)
    displayed = [item for item in first if item.output_type == "display_data"]
    assert len(displayed) == 1
    assert re.search(last, displayed[0].data["text/plain"])
    streams = "".join(
        element.text for element in first if element.output_type == "stream"
    )
    assert len(streams.splitlines()) <= 5, streams
    assert [item.output_type for item in second] == ["stream"]
    assert second[0].text == "done\n"
