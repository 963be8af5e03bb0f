"""A notebook whose tasks are on two hosts."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_core.utils import ensure_event_loop

from tests.hosts.two_hosts import TwoHosts
from tests.magics.kernel import Answer, Kernel, kernel

pytestmark = [
    *(pytest.mark.slow, pytest.mark.engines, pytest.mark.net),
    # Hosts are lost by silence, and ssh is slow on a busy one.
    pytest.mark.timeout(300),
]

ROOT = Path(__file__).parents[2]


def site_file(hosts: TwoHosts, folder: Path, names: dict[str, int]) -> Path:
    """Write what a site says of its hosts, once for all notebooks."""
    path, words = folder / "launchers.toml", json.dumps
    slots = ", ".join(f"{words(name)} = {n}" for name, n in names.items())
    path.write_text(
        f"[ssh]\nhosts = {{{slots}}}\nssh_args = {words(hosts.ssh_args)}\n"
        f"python = {words(hosts.python)}\n"
    )
    return path


@pytest.fixture(scope="module")
def notebook(hosts: TwoHosts) -> Iterator[Kernel]:
    loop = ensure_event_loop()
    try:
        # ssh makes a socket there, whose path must be short.
        with (
            tempfile.TemporaryDirectory() as runtime,
            pytest.MonkeyPatch.context() as m,
        ):
            slots = dict.fromkeys(hosts.address.values(), 2)
            site = site_file(hosts, Path(runtime), slots)
            m.setenv("KIT_LAUNCHERS", str(site))
            with kernel(Path(runtime)) as result:
                assert result.run("%load_ext kit").status == "ok"
                yield result
    finally:
        loop.close()


def heard(notebook: Kernel, cell: str, words: str) -> Answer:
    """Return what a cell that still runs has put out, once it has printed `words`."""
    answer, give_up = Answer(), time.monotonic() + 30
    while words not in answer.printed:
        try:
            message = notebook.client.get_iopub_msg(timeout=1)
        except queue.Empty:
            assert time.monotonic() < give_up, answer
            continue
        if message["parent_header"].get("msg_id") == cell:
            is_over = answer.take(message, 0)
            assert not is_over, answer
    return answer


TRAINING = """
import hashlib
import kit
from kit.demo.digits import digits_mlp

model = digits_mlp(seed=0)
run = kit.train(model.step, model.params, model.train, steps=120, batch=96,
                topology="ps")
run.switch("ring", at=60)
run.wait(60)
names = [epoch.topology for epoch in run.trace.epochs]
bits = b"".join(run.params[name].tobytes() for name in sorted(run.params))
" ".join([*names, hashlib.sha256(bits).hexdigest()])
"""


LOCALLY = f"%%cluster --ps 1 --worker 3\n{TRAINING}"
AFAR = f"%%cluster --ps 1 --worker 3 --launcher ssh\n{TRAINING}"


@pytest.mark.lasting("process", "descriptor", "thread")  # the cluster goes on
def test_training_of_the_first_lesson_has_the_bits_of_a_local_cluster(
    notebook: Kernel,
) -> None:
    here = notebook.run(LOCALLY)
    assert notebook.run("%cluster stop").status == "ok"
    there = notebook.run(AFAR)

    assert here.result.startswith("'ps ring "), here
    assert there.result == here.result, there


@pytest.mark.lasting("process", "descriptor", "thread")  # as above, if this is alone
def test_what_a_cell_prints_on_a_far_task_is_seen_while_the_cell_runs(
    notebook: Kernel, tmp_path: Path
) -> None:
    begun = notebook.run(AFAR.replace(TRAINING, "'begun'"))  # or it runs already
    assert begun.result == "'begun'", begun
    go = tmp_path / "go"

    cell = notebook.begin(
        "%%on worker:2\n"
        "import platform\n"
        "from pathlib import Path\n"
        "from kit.testing.task_process import until\n"
        "print('first, on', platform.node())\n"
        f"until(Path({str(go)!r}).exists, 30)\n"
        "print('last')"
    )
    first = heard(notebook, cell, "\n")
    go.touch()
    rest = notebook.end(cell)

    assert first.printed == "worker:2 │ first, on nodeb\n"
    assert rest.status == "ok", rest
    assert rest.printed == "worker:2 │ last\n"
    assert notebook.run("%cluster stop").printed.startswith("Cluster stopped")


ON_ONE_MACHINE = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for cell in (
    "%load_ext kit",
    "%%cluster --ps 1 --worker 3 --launcher ssh --hosts localhost:2,127.0.0.1:2\\n"
    "import os\\n"
    "from kit.cluster.running import current\\n"
    "from tests.cluster.engine_training import begin, replayed\\n"
    "run = begin(current(), steps=60, topology='hierarchical').wait(60)\\n"
    "print('forked by', len(set(current().call('all', os.getppid))))\\n"
    "want = replayed(60, n_workers=3)\\n"
    "print('bits', all((run.params[k] == want[k]).all() for k in want))\\n",
    "%cluster stop",
):
    shell.run_cell(cell).raise_error()
"""


def test_two_names_of_one_machine_are_two_hosts_to_try_it(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ON_ONE_MACHINE)
    site = site_file(hosts, tmp_path, {"localhost": 1})
    expected = {"KIT_LAUNCHERS": site, "PYTHONPATH": ROOT, "IPYTHONDIR": tmp_path}
    words = [f"{name}={value}" for name, value in expected.items()]
    command = hosts.at("nodea", "env", *words, sys.executable, str(program))

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "forked by 2" in done.stdout
    assert "bits True" in done.stdout
