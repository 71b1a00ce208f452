"""Pools: what is written is read again, small, and damage is reported."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_nsight.calibrate.pool import Pool, PoolWriter, join_pools, list_processes, read_pool, write_pool
from pytest_nsight.model.errors import BaselineError
from pytest_nsight.model.values import METRICS, RunSummary
from tests.calibrate.pools import Sessions, make_pool


def test_a_pool_comes_back_as_it_was(tmp_path: Path) -> None:
    pool = make_pool(Sessions(boards=2, runs=25, subjects=3, canaries=2))

    write_pool(tmp_path / "new" / "pool.json.gz", pool)
    found = read_pool(tmp_path / "new" / "pool.json.gz")

    key = lambda run: (run.run, run.subject)  # noqa: E731
    assert sorted(found.summaries, key=key) == sorted(pool.summaries, key=key)
    assert found.policies == pool.policies
    assert found.seconds == pool.seconds


def test_only_the_gated_duration_is_kept(tmp_path: Path) -> None:
    pool = make_pool(Sessions(runs=1, subjects=2))
    full = tuple(replace(run, rounds=dict.fromkeys(METRICS, (7, 8))) for run in pool.summaries)
    policies = {case: replace(policy, metric="span") for case, policy in pool.policies.items()}

    write_pool(tmp_path / "pool.json.gz", Pool(full, policies))

    assert [list(run.rounds) for run in read_pool(tmp_path / "pool.json.gz").summaries] == [["span"], ["span"]]


@pytest.mark.slow
def test_fifty_runs_of_a_suite_with_canaries_take_less_than_700_kb(tmp_path: Path) -> None:
    # Rounds that vary by 1 % in steps of 1 ns: more digits than any GPU's timer gives.
    pool = make_pool(Sessions(runs=50, subjects=28, canaries=4, rounds=40, round_sd=0.01))

    write_pool(tmp_path / "pool.json.gz", pool)

    assert (tmp_path / "pool.json.gz").stat().st_size < 700_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "it is not compressed by gzip"),
        (gzip.compress(b"{}\n{}", mtime=0), "no pool of runs"),
        (gzip.compress(b'{"pool": 9}\n{}', mtime=0), "a newer pytest-nsight"),
        (gzip.compress(b"[]" * 1000, mtime=0)[:-9], "no pool of runs"),
    ],
    ids=["no gzip", "no pool", "newer", "cut off"],
)
def test_what_is_no_pool_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "pool.json.gz").write_bytes(content)

    with pytest.raises(BaselineError, match=message):
        read_pool(tmp_path / "pool.json.gz")


def test_runs_that_lack_a_subject_are_left_out_and_subjects_that_most_lack_too() -> None:
    pool = make_pool(Sessions(runs=5, subjects=3))
    last_run = pool.summaries[-1].run
    rare = replace(pool.summaries[0], subject=replace(pool.summaries[0].subject, part="rare"))

    found = list_processes([*pool.summaries[:-1], rare])

    assert last_run not in {process.run for process in found}
    assert len(found) == 4
    assert {len(process.summaries) for process in found} == {3}


def test_joined_pools_count_a_run_once() -> None:
    pool, other = make_pool(Sessions(runs=4)), make_pool(Sessions(runs=4, boards=2))

    assert len(list_processes(join_pools([pool, pool, other]).summaries)) == 8


class MeasuredRuns:
    """The runs of a pool, one after the other, in simulated time."""

    def __init__(self, pool: Pool, run_s: float) -> None:
        self.now_s = 0.0
        self._run_s = run_s
        self._runs = [tuple(process.summaries.values()) for process in list_processes(pool.summaries)]
        self.measured: tuple[RunSummary, ...] = ()
        self.runs = 0

    def measure(self) -> None:
        self.measured += self._runs[self.runs]
        self.runs += 1
        self.now_s += self._run_s


@pytest.fixture
def source() -> MeasuredRuns:
    return MeasuredRuns(make_pool(Sessions(runs=20, subjects=2)), run_s=9)


def test_a_pool_that_is_written_stops_before_the_time_is_over(source: MeasuredRuns, tmp_path: Path) -> None:
    with PoolWriter(tmp_path / "p.gz", {}, minutes=1, clock=lambda: source.now_s) as writer:
        while writer.add(source.measured):
            source.measure()

    assert source.runs == 6
    assert source.now_s <= 60
    assert set(read_pool(tmp_path / "p.gz").seconds.values()) == {9.0}


def test_what_was_measured_before_an_interrupt_is_in_the_pool(source: MeasuredRuns, tmp_path: Path) -> None:
    def measure_until_interrupted() -> None:
        with PoolWriter(tmp_path / "p.gz", {}) as writer:
            for _ in range(3):
                source.measure()
                writer.add(source.measured)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_until_interrupted()

    assert len(list_processes(read_pool(tmp_path / "p.gz").summaries)) == 3


def test_a_pool_is_on_disk_after_its_first_run(source: MeasuredRuns, tmp_path: Path) -> None:
    with PoolWriter(tmp_path / "p.gz", {}, clock=lambda: source.now_s) as writer:
        writer.add(source.measured)
        assert not (tmp_path / "p.gz").exists()

        source.measure()
        writer.add(source.measured)

        assert len(read_pool(tmp_path / "p.gz").summaries) == 2
