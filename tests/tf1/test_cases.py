"""`kit.tf1` does in every recorded case what the original was seen to do."""

from __future__ import annotations

import pytest

from tests.tf1 import gallery
from tests.tf1.agreement import difference
from tests.tf1.outcome import outcome_of

tf1 = pytest.importorskip("kit.tf1")

CASES = {
    f"{topic}-{name}": (topic, name, case)
    for topic in gallery.topics()
    for name, case in gallery.cases_of(topic).items()
}
RECORDED = {topic: gallery.recorded(topic) for topic in gallery.topics()}


@pytest.mark.parametrize("which", CASES)
def test_outcome_is_one_that_the_original_gave(which: str) -> None:
    topic, name, case = CASES[which]
    seen = {version: RECORDED[topic][version][name] for version in gallery.VERSIONS}

    ours = outcome_of(case, tf1)

    found = {
        version: difference(ours, outcome)
        for version, outcome in seen.items()
        if "absent" not in outcome
    }
    assert None in found.values(), "\n".join(
        f"not as in {version}: {text}" for version, text in found.items()
    )
