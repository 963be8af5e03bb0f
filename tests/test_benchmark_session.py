"""The session benchmark runs from end to end, and notices a wrong value."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import session
from benchmarks.rank_group import ROOT, RanksFailed
from tests.zygote import forking


@forking()
@pytest.mark.slow
def test_every_run_is_in_the_table_and_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.session", "--json", str(path)]
    done = subprocess.run(
        [*command, "--rounds", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())["figures"]["microseconds"]
    assert set(result) == set(session.CLIENTS)
    for cases in result.values():
        assert set(cases) == {case.name for case in session.CASES}
        for case in session.CASES:
            assert len(cases[case.name]["kit"]) == case.repeats
    assert done.stdout.count("\n| ") == 1 + 2 * len(session.CASES)


class Wrong:
    """A rank group that gives another value."""

    name = "wrong"

    def order(self, **_: object) -> list[dict[str, object]]:
        return [{"us": [1.0], "value": 7.0}] * session.N_RANKS


def test_a_wrong_value_ends_the_benchmark() -> None:
    with pytest.raises(RanksFailed, match=r"wrong gives 7\.0"):
        session.measure(Wrong(), session.CASES[0], 1)  # type: ignore[arg-type]


def test_a_peer_that_is_not_there_is_missing_in_the_table() -> None:
    row = session.row_of("inside", session.CASES[0], {"kit": [30.0]})

    assert row[2:] == ("30", "missing", "-")
