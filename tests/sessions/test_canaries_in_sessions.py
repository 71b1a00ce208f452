"""Canaries in a session: measured, stored and handed on, and never in the way of the user's tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_nsight.protocol.manifest_reader import read_manifest

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]

CONFTEST = """
import os
import torch
from pytest_nsight.worker.canaries import Canary, Prepared, make_canaries
from pytest_nsight.worker.device import CpuDevice

torch.set_num_threads(1)
CpuDevice.canaries = make_canaries(torch, "cpu", 1 << 20, 1024)

def prepare():
    raise RuntimeError("no memory today")

def die():
    os.kill(os.getpid(), 11)

harm = os.environ.get("HARM")
if harm:
    prepares = {"raise": prepare, "die": lambda: Prepared(die)}
    CpuDevice.canaries = (Canary("copy", prepares[harm]), *CpuDevice.canaries[1:])
"""

BODY = """
@pytest.mark.nsight
@pytest.mark.parametrize("n", range(3))
def test_op(nsight, n):
    nsight(square, torch.ones(64, 64))
"""


@pytest.fixture(autouse=True)
def _conftest(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)


def _result(pytester: pytest.Pytester) -> dict[str, object]:
    path = max((pytester.path / ".nsight").glob("*/result.json"))
    found: dict[str, object] = json.loads(path.read_text())["nsight"]
    return found


def test_they_are_saved_and_handed_on_but_nowhere_among_the_users(gate: Gate, pytester: pytest.Pytester) -> None:
    saved = gate("--nsight-save", "--nsight-runs=2", "--junitxml=junit.xml", "-v", body=BODY)
    checked = gate("-x", "--nsight-json=out.json", "-k", "0")

    saved.assert_outcomes(passed=3)
    checked.assert_outcomes(passed=1, deselected=2)
    (path,) = (pytester.path / "baselines").glob("*/nsight_canaries.json")
    stored = json.loads(path.read_text())["subjects"]
    assert len(stored) == 8
    assert all(len(subject["runs"]) == 2 for subject in stored)
    assert "canar" not in (pytester.path / "junit.xml").read_text()
    assert "nsight_canaries::" not in saved.stdout.str() + checked.stdout.str()
    found = json.loads((pytester.path / "out.json").read_text())
    assert [one["fullname"] for one in found["benchmarks"]] == ["test_case.py::test_op[0]"]
    assert {one["name"] for one in found["nsight"]["canaries"]} >= {"copy", "triad", "matmul", "tiny"}
    # Every process measures them, and noise may have made the case a suspect.
    processes = len(list(max((pytester.path / ".nsight").glob("2*")).glob("run-*/manifest.jsonl")))
    assert all(len(one["runs"]) == processes for one in found["nsight"]["canaries"])


def test_the_seed_of_an_order_is_told(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-runs=2", body=BODY)

    seeds = _result(pytester)["seeds"]
    manifests = [read_manifest(path) for path in (pytester.path / ".nsight").glob("*/run-*/manifest.jsonl")]
    assert seeds == {manifest.run: manifest.seed for manifest in manifests}
    assert len(set(seeds.values())) == 2  # type: ignore[attr-defined]


def test_the_switch_and_the_setting_do_without_them(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-no-canaries", body=BODY)
    assert _result(pytester)["canaries"] == []
    pytester.makeini("[pytest]\nnsight_canaries = false\n")
    gate()

    assert _result(pytester)["canaries"] == []


@pytest.mark.parametrize(("harm", "told"), [("raise", "no memory today"), ("die", "died with SIGSEGV")])
def test_one_that_fails_or_kills_the_process_never_fails_a_test(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, harm: str, told: str
) -> None:
    monkeypatch.setenv("HARM", harm)

    result = gate("--nsight-runs=2", body=BODY)

    result.assert_outcomes(passed=3)
    assert result.stdout.str().count(told) == 1


def test_a_session_kept_on_disk_is_replayed_with_them(gate: Gate, pytester: pytest.Pytester) -> None:
    gate("--nsight-keep", body=BODY)
    (session,) = (pytester.path / ".nsight").glob("2*")

    gate("--nsight-replay", str(session), "--nsight-json=out.json")

    found = json.loads(Path("out.json").read_text())["nsight"]["canaries"]
    assert len(found) > 4
