"""`@pytest.mark.nsight(ranks=2)`: two real processes and gloo, no GPU needed."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.sessions.conftest import HEAD
from tests.sessions.interrupting import interrupt_in_case

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]

GROUP = """
import torch.distributed as dist

@pytest.fixture(scope="session")
def group():
    dist.init_process_group("gloo")
    yield
    dist.destroy_process_group()
"""

SUITE = (
    GROUP
    + """
@pytest.mark.nsight(ranks=2)
def test_sum(nsight, group):
    x = torch.full((1000,), float(nsight.rank + 1))
    out = torch.empty(1000)
    def add_up():
        out.copy_(x)
        dist.all_reduce(out)
    nsight(add_up)
    assert out[0] == sum(range(1, nsight.ranks + 1))
    with open("ranks.txt", "a") as file:
        print(nsight.rank, nsight.ranks, file=file)

@pytest.mark.nsight(ranks=2)
def test_uneven(nsight, group):
    x = torch.ones(400_000)
    def body():
        if nsight.rank == 1:
            for _ in range(20):
                x.exp_().log_()
        dist.barrier()
    nsight(body)

@pytest.mark.nsight(ranks=2)
def test_fails_on_one(nsight, group):
    x = torch.ones(10)
    nsight(dist.all_reduce, x)
    if nsight.ranks == 2:
        assert nsight.rank == 0, "wrong on the other rank"

@pytest.mark.nsight(ranks=2)
def test_stuck(nsight, group):
    x = torch.ones(10)
    if nsight.ranks == 2 and nsight.rank == 1:
        raise ValueError("never joins the others")
    nsight(dist.all_reduce, x)

@pytest.mark.nsight
def test_alone(nsight):
    assert "RANK" not in os.environ
    nsight(square, torch.ones(3))
"""
)


def medians(path) -> dict[str, float]:
    benchmarks = json.loads(path.read_text())["benchmarks"]
    return {one["name"]: one["stats"]["median"] for one in benchmarks}


def test_the_slowest_rank_is_judged_and_each_has_a_row(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("-v", "--nsight-json=out.json", "-k", "sum or uneven or alone", body=SUITE)

    result.assert_outcomes(passed=3, deselected=2)
    assert sorted((pytester.path / "ranks.txt").read_text().splitlines()) == ["0 2", "1 2"]
    rows = json.loads((pytester.path / "out.json").read_text())["benchmarks"]
    data = {row["name"]: row["stats"]["data"] for row in rows}
    assert {name for name in data if "rank" in name} == {
        f"test_{case}/rank {rank}" for case in ("sum", "uneven") for rank in (0, 1)
    }
    for case in ("test_sum", "test_uneven"):
        trees = zip(data[f"{case}/rank 0"], data[f"{case}/rank 1"], strict=True)
        assert data[case] == [max(side) for side in trees]
    assert min(data["test_uneven/rank 1"]) > max(data["test_uneven/rank 0"])


def test_a_failure_is_that_rank_s_and_the_rest_is_measured(gate: Gate, pytester: pytest.Pytester) -> None:
    result = gate("-v", body=SUITE)

    result.assert_outcomes(passed=3, failed=2)
    text = result.stdout.str()
    assert "wrong on the other rank" in text
    assert "never joins the others" in text
    assert text.count("this is rank 1 of 2") == 2


def test_a_dying_rank_is_named(gate: Gate) -> None:
    body = (
        GROUP
        + """
@pytest.mark.nsight(ranks=2)
@pytest.mark.parametrize("number", range(2))
def test_dies(nsight, group, number):
    x = torch.ones(10)
    nsight(dist.all_reduce, x)
    if nsight.rank == 1 and number == 0:
        os.kill(os.getpid(), 11)
    dist.all_reduce(x)
"""
    )
    result = gate("-v", body=body)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*rank 1: the worker process died with SIGSEGV while *test_dies[[]0[]] ran*"])


def test_too_few_gpus_skip_the_test(gate: Gate, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        one_gpu="from pytest_nsight.processes import machine as d; d.gpus = lambda: (d.Gpu('Made Up', 'GPU-a'),)"
    )
    pytester.syspathinsert()

    result = gate("-p", "one_gpu", "--nsight-collector=torch", "-rs", "-k", "sum", body=SUITE)

    result.assert_outcomes(skipped=1, deselected=4)
    result.stdout.fnmatch_lines(["SKIPPED*needs 2 GPUs, and 1 is visible*"])


def test_without_nsight_a_test_has_a_world_of_its_own(gate: Gate) -> None:
    gate(nsight=False, body=SUITE).assert_outcomes(passed=5)


def test_under_torchrun_one_sentence_says_what_to_do(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)

    result = gate(body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --nsight under torchrun*run pytest once*nsight(ranks=...)*"])


def test_an_interrupted_run_of_ranks_is_neither_offered_nor_saved(gate: Gate, pytester: pytest.Pytester) -> None:
    body = """
import time

@pytest.mark.nsight(ranks=2)
def test_slow(nsight):
    nsight(time.sleep, 600)
"""
    pytester.makepyfile(test_case=HEAD + body)

    code, output = interrupt_in_case(pytester, ("--nsight-save", "--nsight-keep"), "ranks-2-rank-*")

    assert code == pytest.ExitCode.INTERRUPTED, output
    assert "came to an end" not in output
    (session,) = (pytester.path / ".nsight").glob("2*")
    saved = gate("--nsight-save", f"--nsight-replay={session}")
    assert saved.ret == pytest.ExitCode.USAGE_ERROR
    assert f"no run of {session} came to its end" in saved.stdout.str() + saved.stderr.str()
    assert "died" not in saved.stdout.str()

    judged = gate(f"--nsight-replay={session}")

    assert "failed" not in judged.stdout.str(), "an interrupt is no failure of the test"
