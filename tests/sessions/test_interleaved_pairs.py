"""Cases with a claim are measured in turns with their partners, and no test notices."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]

# A CPU keeps no bodies; here it does, so that the whole way can be walked without a GPU.
CONFTEST = """
from pytest_nsight.worker.device import CpuDevice
CpuDevice.has_room_to_keep = lambda self: True
"""

BODY = """
@pytest.mark.parametrize("variant", [
    pytest.param("fused", marks=pytest.mark.nsight(faster_than="unfused", by=1.1)),
    pytest.param("unfused", marks=pytest.mark.nsight),
])
@pytest.mark.parametrize("n", [64, 128, 256])
def test_op(nsight, variant, n, tmp_path):
    path = tmp_path / "there"
    path.touch()
    x = torch.ones(n, n)
    out = nsight(square if variant == "fused" else chain, x)
    assert out.shape == (n, n)

@pytest.mark.nsight
@pytest.mark.parametrize("variant", ["fused", "unfused"])
def test_other(nsight, variant):
    nsight(square, torch.ones(8, 8))
"""


def test_pairs_stand_side_by_side_and_are_raced(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)

    result = gate("--nsight-runs=2", body=BODY)

    result.assert_outcomes(passed=8)
    assert "nsight_pairs" not in result.stdout.str()
    for path in (pytester.path / ".nsight").glob("*/run-*/manifest.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        order = [event["case"] for event in events if event["event"] == "case"]
        races = [event for event in events if event["event"] == "pair"]
        assert len(races) == 3
        for race in races:
            assert "[" in race["case"]
            assert race["case"].replace("fused", "unfused") == race["partner"]
            assert abs(order.index(race["case"]) - order.index(race["partner"])) == 1
            rounds = [event["case"] for event in events if event["event"] == "round"]
            assert rounds.count(race["own_rounds"]) == rounds.count(race["partner_rounds"]) == 10


def test_of_two_trees_only_this_one_measures_pairs_since_its_claims_are_judged(
    gate: Gate, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(CONFTEST)
    gate("--collect-only", body=BODY, nsight=False)
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for arguments in (("init", "-b", "main"), ("add", "--all"), (*who, "commit", "-m", "a commit")):
        subprocess.run(["git", *arguments], cwd=pytester.path, check=True, capture_output=True)

    result = gate("--nsight-against=HEAD", "-k", "op and 64")

    result.assert_outcomes(passed=2)
    found: dict[str, list[int]] = {}
    for path in (pytester.path / ".nsight").glob("*/run-*/manifest.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        pairs = sum(event["event"] == "pair" for event in events)
        found.setdefault(events[0].get("tree", ""), []).append(pairs)
    # A later look may ask for one of the two cases.
    assert 1 in found[""], found
    assert set(found["against"]) == {0}, found
