"""`python -m kit serve` and `credentials`: what a script or a container starts."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kit
from kit.__main__ import main
from kit.wire.handshake.credentials import Credentials
from tests.server.ports import spec_of


@contextmanager
def serving(*options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "kit", "serve", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_new_credentials_are_for_this_user_alone_and_can_be_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "secrets" / "cluster.json"

    assert main(["credentials", "new", str(path)]) == 0

    assert Credentials.load(path).has_certificate
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert str(path) in capsys.readouterr().out


def test_credentials_that_are_in_use_are_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.json"
    Credentials.new(certificate=False).save(path)
    before = path.read_bytes()

    assert main(["credentials", "new", str(path)]) == 2

    assert path.read_bytes() == before
    assert "is there already" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert main(["credentials", "new", str(tmp_path / "file" / "c.json")]) == 2

    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster", "{"], "--cluster {"),
        (["--cluster", "[]"], '{"worker": ["a:2222"]}'),
        (["--cluster", '{"worker": [1]}'], "task 0"),
        (["--cluster", '{"worker": {"x": "a:1"}}'], "'x'"),
        (["--cluster", '{"ps": ["a:1"], "worker": ["b:1"]}'], "'ps', 'worker'"),
        (["--cluster", '{"ps": ["a:1"]}', "--index", "4"], "index 4"),
        (["--cluster", '{"ps": ["a:1"]}', "--bind", "unix:/x"], "unix:/x"),
        (["--job", "worker"], "--cluster"),
        ([], "TF_CONFIG"),
        (["--credentials", "/nowhere/c.json"], "/nowhere/c.json"),
    ],
)
def test_what_cannot_be_served_is_one_sentence_and_code_2(
    options: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Credentials.new().save(tmp_path / "c.json")
    monkeypatch.setenv("KIT_CREDENTIALS", str(tmp_path / "c.json"))
    for name in ("TF_CONFIG", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)

    assert main(["serve", *options]) == 2

    message = capsys.readouterr().err.strip()
    assert words in message
    assert "\n" not in message


def test_a_missing_file_that_the_environment_names_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "credentials.json"
    monkeypatch.setenv("KIT_CREDENTIALS", str(path))

    with pytest.raises(kit.errors.NotFoundError, match="credentials new"):
        kit.Server({"worker": ["localhost:0"]})

    assert not path.exists()


@pytest.mark.parametrize("arguments", [[], ["serve", "--index", "x"], ["credentials"]])
def test_a_command_that_cannot_be_parsed_ends_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.slow
def test_tasks_that_were_started_by_hand_serve_a_session_until_a_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.json"
    Credentials.new().save(path)
    monkeypatch.setenv("KIT_CREDENTIALS", str(path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    spec = spec_of(1, 1)
    options = ["--cluster", json.dumps(spec), "--credentials", str(path)]

    with (
        serving(*options, "--job", "ps") as ps,
        serving(*options, "--job", "worker", "--index", "0") as worker,
    ):
        assert first_line(ps) == f"ps:0 serves at {spec['ps'][0]}\n"
        assert first_line(worker).startswith("worker:0 serves")
        with kit.Graph().as_default():
            with kit.device("/job:ps/task:0"):
                doubled = kit.constant(21.0) * 2
            with kit.Session(f"psring://{spec['worker'][0]}") as session:
                assert session.run(doubled) == 42
        ps.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)

        assert [process.wait(20) for process in (ps, worker)] == [0, 130]
    assert list((tmp_path / "psring").iterdir()) == []
