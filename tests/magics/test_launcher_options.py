"""Options of launchers on a line, and what a site's file says where they are absent."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from IPython.core.error import UsageError

from kit.cluster.launchers import MPI, SSH, Launcher, Slurm
from kit.cluster.launchers.site import launcher_defaults
from kit.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from kit.magics.cluster_cell_magic import StartMagics
from kit.magics.launcher_options import asked_launcher
from kit.magics.line_parsing import parse
from tests.cases import for_each

VARIABLES = {"mine": SSH({"nodea": 3}), "number": 3}


def asked(line: str, **site: Mapping[str, object]) -> Launcher | None:
    options = parse(StartMagics.cluster, line)
    return asked_launcher(options, VARIABLES, lambda name: site.get(name, {}))


@for_each(
    ("line", "launcher"),
    [
        ("--ps 1 --worker 4", None),
        (
            "--worker 4 --launcher ssh --hosts nodea:3,nodeb:2",
            SSH({"nodea": 3, "nodeb": 2}),
        ),
        (
            "--launcher ssh --hosts me@nodea:2222:3 --python /opt/python",
            SSH({"me@nodea:2222": 3}, python="/opt/python"),
        ),
        (
            "--launcher ssh --hosts 'nodea:1, nodeb:2' --ssh-args \"-i 'my key' -4\"",
            SSH({"nodea": 1, "nodeb": 2}, ssh_args=["-i", "my key", "-4"]),
        ),
        (
            "--launcher slurm --partition short --time 1:00:00 --account lab",
            Slurm(partition="short", time="1:00:00", account="lab"),
        ),
        (
            '--launcher slurm --options "--exclusive --mem=4G"',
            Slurm(options=["--exclusive", "--mem=4G"]),
        ),
        (
            '--launcher mpi --args "--hostfile hosts" --address 10.0.0.1',
            MPI(args=["--hostfile", "hosts"], address="10.0.0.1"),
        ),
        ("--launcher mine", SSH({"nodea": 3})),
        ("--launcher mine --hosts nodeb:2", SSH({"nodeb": 2})),
    ],
)
def test_a_line_becomes_the_launcher_that_it_describes(
    line: str, launcher: Launcher | None
) -> None:
    assert asked(line) == launcher


def test_what_the_line_does_not_say_is_taken_from_the_site() -> None:
    site = {"hosts": {"nodea": 3}, "python": "/opt/python"}

    assert asked("--launcher ssh", ssh=site) == SSH({"nodea": 3}, python="/opt/python")
    assert asked("--launcher ssh --hosts nodeb:1", ssh=site) == SSH(
        {"nodeb": 1}, python="/opt/python"
    )
    assert asked("--launcher mine", ssh=site) == SSH({"nodea": 3})
    assert asked("--worker 2", ssh=site) is None


@for_each(
    ("line", "message"),
    [
        (
            "--launcher shs",
            "--launcher shs is neither a known one nor a variable. Did you mean "
            "ssh? Give one of mpi, slurm, ssh, or a variable that holds one of "
            "kit.launchers.",
        ),
        (
            "--launcher number",
            "--launcher number is a variable of type int. Give one of mpi, slurm, ssh, "
            "or a variable that holds one of kit.launchers.",
        ),
        (
            "--launcher ssh",
            "--launcher ssh needs --hosts; write it like --hosts nodea:3,nodeb:2.",
        ),
        (
            "--launcher ssh --hosts nodea,nodeb:2",
            "'nodea' does not say how many tasks the host can hold; write it like "
            "--hosts nodea:3,nodeb:2.",
        ),
        (
            "--launcher ssh --hosts nodea:3,nodea:2",
            "host 'nodea' is given twice; write it like --hosts nodea:3,nodeb:2.",
        ),
        (
            "--launcher slurm --hosts nodea:3",
            "--launcher slurm has no option --hosts; it has --partition, --time, "
            "--account, --memory, --options, --shared, --environment, --address, "
            "--python.",
        ),
        ("--hosts nodea:3", "--hosts needs a launcher; add --launcher ssh."),
        ("--args x", "--args needs a launcher; add --launcher mpi."),
        (
            '--launcher ssh --hosts nodea:1 --ssh-args "-i \'key"',
            'No closing quotation; write it like --ssh-args "-x word".',
        ),
    ],
)
def test_a_mistake_is_told_with_the_right_form(line: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        asked(line)

    assert str(raised.value) == f"%%cluster: {message}"


def test_a_queue_has_lines_to_write_and_a_class_refuses_in_its_own_words() -> None:
    with pytest.raises(UnimplementedError, match=r"Cluster\.from_dask\(client"):
        asked("--launcher sge")
    with pytest.raises(InvalidArgumentError, match="give at least one host"):
        asked("--launcher ssh --hosts nodea:0")


def test_the_help_has_the_options_of_each_launcher() -> None:
    text = " ".join((StartMagics.cluster.__doc__ or "").split())

    assert "--hosts <HOST:N,...>" in text
    assert "ssh: How many tasks each host can hold" in text
    assert "slurm: Of the job, as for `sbatch`" in text
    assert "every launcher: The interpreter on the hosts" in text


# --------------------------------------------------------------------------------------
# The site's file.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "psring" / "launchers.toml"
    path.parent.mkdir()
    return path


def environ(file: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(file.parents[1])}


def test_each_launcher_gets_its_table_of_the_file_which_may_be_a_link(
    file: Path,
) -> None:
    assert launcher_defaults("ssh", environ(file)) == {}  # there is no file

    real = file.with_name("real.toml")
    real.write_text(
        '[ssh]\nhosts = {"nodea.lab" = 3}\nssh_args = ["-4"]\n'
        '[slurm]\npartition = "short"\n'
    )
    file.symlink_to(real)

    ssh, slurm, mpi = (
        launcher_defaults(name, environ(file)) for name in ("ssh", "slurm", "mpi")
    )
    assert ssh == {"hosts": {"nodea.lab": 3}, "ssh_args": ["-4"]}
    assert (slurm, mpi) == ({"partition": "short"}, {})


def test_the_file_that_the_environment_names_comes_first(file: Path) -> None:
    file.write_text('[ssh]\npython = "not this one"\n')
    other = file.with_name("other.toml")
    other.write_text('[ssh]\npython = "this one"\n')

    result = launcher_defaults("ssh", {**environ(file), "KIT_LAUNCHERS": str(other)})

    assert result == {"python": "this one"}


def test_a_named_file_that_is_missing_is_an_error(file: Path) -> None:
    with pytest.raises(NotFoundError, match=r"KIT_LAUNCHERS names .*, which does not"):
        launcher_defaults("ssh", {"KIT_LAUNCHERS": str(file)})


@for_each(
    ("text", "message"),
    [
        ("[shs]\n", "no launcher is called [shs]. Did you mean ssh? There are: "),
        ("ssh = 1\n", "[ssh] is not a table; write its name like this."),
        ("[ssh]\nhost = 1\n", "[ssh] has no field 'host'. Did you mean hosts? It has:"),
        (
            '[ssh]\nhosts = "nodea:3"\n',
            "[ssh] has hosts = 'nodea:3'; write it like hosts = "
            '{"nodea" = 3, "nodeb" = 2}.',
        ),
        (
            "[ssh.hosts]\nnodea.lab = 3\n",
            "[ssh] has hosts = {'nodea': {'lab': 3}}; write it like hosts = "
            '{"nodea" = 3, "nodeb" = 2}.',
        ),
        ('[ssh]\nssh_args = "-4"\n', 'write it like ssh_args = ["-x", "word"].'),
        ("[ssh]\npython = 3\n", '[ssh] has python = 3; write it like python = "TEXT".'),
        ("[ssh\n", "cannot be read: Expected ']'"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_the_right_form(
    file: Path, text: str, message: str
) -> None:
    file.write_text(text)

    with pytest.raises(InvalidArgumentError) as raised:
        launcher_defaults("ssh", environ(file))

    assert str(file) in raised.value.message
    assert message in raised.value.message
