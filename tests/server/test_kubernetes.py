"""The objects of Kubernetes: by its own schemas, and by running what pods would run."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import kit
from kit.__main__ import main
from kit.errors import InvalidArgumentError
from kit.server.directory import short_folder
from tests.cases import for_each
from tests.server.pods import Kubelet, Pod, config_of, running
from tests.training.toy import replayed

IMAGE = "registry.example:5000/team/digits:3"
PLAIN = kit.Credentials.new()
SECRET_KEY = PLAIN.to_plain()["key"]

PROGRAM = """
import kit
from tests.training.toy import DATA, fit, initial

with kit.Server.from_environment(bind="0.0.0.0") as server:
    run = kit.train(fit, initial(), DATA, steps=20, batch=10, cluster=server)
    print(run.wait(60).params["w"].tobytes().hex())
"""
ATTACHING = """
import kit

cluster = kit.attach("demo-worker-1.demo:2222")
print(*cluster.status, sep=", ")
with kit.Graph().as_default(), kit.device("/job:ps/task:0"):
    doubled = kit.constant(21.0) * 2
    with kit.Session(cluster.session_target) as session:
        print(session.run(doubled))
"""


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder in which the path of a pod's socket is not too long."""
    with TemporaryDirectory(prefix="pods-", dir=short_folder()) as folder:
        yield Path(folder)


def made(name: str = "demo", image: str = IMAGE, **more: Any) -> list[dict[str, Any]]:
    return kit.kubernetes.manifest(name, image, **{"credentials": PLAIN, **more})


@pytest.mark.slow
@for_each(
    "options",
    [
        {},
        {"program": ["python3", "/app/train.py"]},
        {"program": ["train"], "notebook": True, "ps": 0, "namespace": "team"},
        {"limits": {"cpu": "500m", "nvidia.com/gpu": "1"}, "environment": {"A": "b"}},
    ],
)
def test_every_object_keeps_the_schemas_of_kubernetes(options: dict[str, Any]) -> None:
    import kubernetes_validate  # takes seconds, which collecting need not wait for

    objects = made(**options)
    for item in objects:
        for version in ("1.28", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(item, version, strict=True)
    objects[-1]["spec"]["podManagmentPolicy"] = "Parallel"  # misspelt: it would be seen
    with pytest.raises(kubernetes_validate.ValidationError, match="podManagment"):
        kubernetes_validate.validate(objects[-1], "1.28", strict=True)


def test_a_name_may_be_as_long_as_the_error_says_and_no_longer() -> None:
    for notebook, program in ((True, ()), (False, ("train",))):
        options: dict[str, Any] = {
            "notebook": notebook,
            "program": program,
            "worker": 100,
        }
        longest = next(
            size for size in count(63, -1) if not error_of(name="a" * size, **options)
        )

        assert f"give {longest} characters at most" in error_of(
            name="a" * (longest + 1), **options
        )
        for row in made(name="a" * longest, **options):
            assert len(row["metadata"]["name"]) <= 52  # and 11 for the hash of a set


def error_of(**options: Any) -> str:
    try:
        made(**options)
    except InvalidArgumentError as error:
        return str(error)
    return ""


@for_each(
    ["options", "words"],
    [
        ({"name": "Demo"}, "name is 'Demo'"),
        ({"name": "1demo"}, "beginning with a letter"),
        ({"name": "a.b"}, "name is 'a.b'"),
        ({"name": "demo-"}, "not ending with '-'"),
        ({"name": "demo\n"}, "name is"),
        ({"name": None}, "name is None"),
        ({"namespace": "a" * 64}, "64 characters"),
        ({"secret": "A"}, "the name of a Secret"),
        ({"image": "digits"}, "with a tag"),
        ({"image": "registry:5000/digits"}, "with a tag"),
        ({"image": "digits:latest"}, "'latest'"),
        ({"image": "digits@sha256:12"}, "digest"),
        ({"ps": -1}, "ps is -1"),
        ({"worker": 0}, "worker is 0"),
        ({"worker": True}, "worker is True"),
        ({"worker": 9_999}, "a shorter name or fewer tasks"),
        ({"port": 80}, "from 1024"),
        ({"user": 0}, "user is 0"),
        ({"start_deadline_s": float("nan")}, "give seconds"),
        ({"program": "python3 train.py"}, "as a list"),
        ({"limits": {"memory": "4 GB"}}, "'4Gi'"),
        ({"limits": {"memory": 4}}, "the limit memory is 4"),
        ({"environment": {"a-b": "c"}}, "'a-b'"),
        ({"environment": {"A": 1}}, "variable A is 1"),
        ({"environment": {"TF_CONFIG": "{}"}}, "TF_CONFIG"),
    ],
)
def test_what_cannot_run_is_one_sentence(options: dict[str, Any], words: str) -> None:
    assert words in error_of(**options)


def test_the_command_prints_a_list_and_each_error_as_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secrets" / "cluster.json"
    PLAIN.save(path)
    options = [
        *("manifest", "demo", IMAGE, "--credentials", str(path), "--worker", "2")
    ]
    options += ["--limit", "cpu=2", "--env", "A=b=c"]

    assert main([*options, "--program", "train", "--fast"]) == 0

    printed = json.loads(capsys.readouterr().out)
    assert (printed["apiVersion"], printed["kind"]) == ("v1", "List")
    assert printed["items"] == made(
        worker=2,
        program=["train", "--fast"],
        limits={"cpu": "2"},
        environment={"A": "b=c"},
    )
    assert main(["manifest", "demo", "digits"]) == 2
    assert main([*options, "--env", "A"]) == 2
    assert "'A' has no '='" in capsys.readouterr().err


def test_credentials_are_in_the_secret_alone_and_may_be_there_already() -> None:
    kinds = {row["kind"]: json.dumps(row) for row in made()}
    others = made(secret="mine")

    assert "Secret" not in {other["kind"] for other in others}
    assert '"secretName": "mine"' in json.dumps(others)
    assert not any(SECRET_KEY in text for text in kinds.values())  # not in clear
    assert sum('credentials.json": ' in text for text in kinds.values()) == 1


@pytest.mark.slow
def test_the_pods_of_a_batch_train_to_the_right_bits(short_path: Path) -> None:
    objects = made(worker=2, program=["python3", "-c", PROGRAM])
    kubelet = Kubelet(objects, short_path)
    pods = kubelet.pods()

    with running(pods):
        ends = {pod.name: finished(pod) for pod in pods if "worker" in pod.name}
        (ps,) = [pod for pod in pods if pod.name == "demo-ps-0"]
        assert ps.is_ready()
        assert stopped(ps) == (0, "")

    wanted = replayed(20, 2, kit.GradientDescent())["w"].tobytes().hex()
    assert ends == dict.fromkeys(["demo-worker-0", "demo-worker-1"], (0, f"{wanted}\n"))
    assert not ps.is_ready()


@pytest.mark.slow
def test_a_notebook_attaches_to_the_pods_that_serve(short_path: Path) -> None:
    objects = made(worker=2)
    notebook = objects[-1]["spec"]["template"]["spec"]["containers"][0]
    kubelet = Kubelet(objects, short_path)
    notebook["command"] = ["python3", "-c", kubelet.local(ATTACHING)]
    *servers, client = kubelet.pods()

    with running(servers):
        assert [config_of(pod)["task"]["index"] for pod in servers] == ["0", "0", "1"]
        for pod in servers:
            assert pod.process is not None
            assert pod.process.stdout is not None
            assert "serves at" in pod.process.stdout.readline()
        assert all(pod.is_ready() for pod in servers)
        with running([client]):
            code, printed = finished(client)
        assert [stopped(pod) for pod in servers] == [(0, "")] * 3

    assert code == 0
    assert printed == "ps:0 ready, worker:0 ready, worker:1 ready\n42.0\n"


def finished(pod: Pod) -> tuple[int, str]:
    """Wait for the end of a pod; return its code and what it printed."""
    assert pod.process is not None
    printed, errors = pod.process.communicate(timeout=80)
    assert not errors, errors
    return pod.process.returncode, printed


def stopped(pod: Pod) -> tuple[int, str]:
    """Stop a pod as Kubernetes does; return its code and what it complained of."""
    assert pod.process is not None
    pod.process.send_signal(signal.SIGTERM)
    _, errors = pod.process.communicate(timeout=30)
    return pod.process.returncode, errors
