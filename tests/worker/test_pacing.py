"""The rest holds the clock of a board that would slow down without it, and costs little where none is needed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.protocol.conditions import NvmlSample
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.worker.measured_body import MeasuredBody, RoundPlan
from pytest_nsight.worker.pacing import (
    IDLE_SHARE,
    LENGTHENED_NS,
    MAX_REST_NS,
    MEAN_SHARE,
    PEAK_SHARE,
    RECOVERED_ROUNDS,
    Pacer,
    first_rest_ns,
    is_near_limit,
    is_slowed,
    longer_rest_ns,
)
from pytest_nsight.worker.rounds import RoundRunner
from tests.worker.board import HIGHEST_MHZ, Board, Silent

FAST = NvmlSample(HIGHEST_MHZ, 200.0, 40, ())
CAPPED = NvmlSample(HIGHEST_MHZ, 690.0, 70, ("software power cap",))

Measure = Callable[..., Manifest]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    def measure(board: Board, body: Callable[[], object], plan: RoundPlan) -> Manifest:
        board.keep_time(monkeypatch)
        journal = Journal(tmp_path / "manifest.jsonl")
        RoundRunner(board, Silent(), journal).measure(MeasuredBody("t.py::t", "t", body, plan=plan))
        return read_manifest(tmp_path / "manifest.jsonl")

    return measure


@given(st.integers(0, 10**10))
def test_the_first_rest_keeps_the_hungriest_kernel_at_the_mean_share(busy_ns: int) -> None:
    rest_ns = first_rest_ns(busy_ns)

    assert 0 <= rest_ns <= MAX_REST_NS
    if 0 < rest_ns < MAX_REST_NS:
        mean = (PEAK_SHARE * busy_ns + IDLE_SHARE * rest_ns) / (busy_ns + rest_ns)
        assert mean == pytest.approx(MEAN_SHARE, rel=1e-3, abs=1 / busy_ns)


@given(st.integers(0, MAX_REST_NS))
def test_a_rest_that_was_too_short_grows_up_to_the_bound(rest_ns: int) -> None:
    longer = longer_rest_ns(rest_ns)

    assert longer > rest_ns or longer == MAX_REST_NS
    assert longer <= MAX_REST_NS


def test_slowed_is_a_reason_or_a_clock_below_the_highest_seen() -> None:
    assert is_slowed(CAPPED, None)
    assert is_slowed(NvmlSample(1935), 1980)
    assert not is_slowed(NvmlSample(1965), 1980)
    assert not is_slowed(FAST, None)
    assert not is_slowed(NvmlSample(), 1980)
    assert is_near_limit(CAPPED, 700)
    assert not is_near_limit(FAST, 700)
    assert not is_near_limit(NvmlSample(), 700)
    assert not is_near_limit(CAPPED, None)


def test_a_fixed_rest_stays_and_its_slowed_rounds_are_recorded() -> None:
    pacer = Pacer(1_000_000, fixed_ns=0, limit_w=700, highest_mhz=None)

    assert [pacer.observe(one) for one in (FAST, CAPPED, FAST)] == [False, True, False]
    assert pacer.rest_ns == 0


def test_a_rest_lengthened_by_earlier_work_is_the_first_one_again_once_the_board_has_recovered() -> None:
    pacer = Pacer(200_000, fixed_ns=None, limit_w=700, highest_mhz=HIGHEST_MHZ)
    first_ns, rests = pacer.rest_ns, []
    for reading in [CAPPED] * 3 + [FAST] * RECOVERED_ROUNDS + [CAPPED] + [FAST] * 2 * RECOVERED_ROUNDS:
        pacer.observe(reading)
        rests.append(pacer.rest_ns)

    assert rests[:3] == [LENGTHENED_NS, 2 * LENGTHENED_NS, 4 * LENGTHENED_NS]
    assert rests[3 : 2 + RECOVERED_ROUNDS] == [4 * LENGTHENED_NS] * (RECOVERED_ROUNDS - 1)
    assert rests[2 + RECOVERED_ROUNDS] == first_ns
    # What slows the board down from now on is this case.
    assert rests[3 + RECOVERED_ROUNDS :] == [LENGTHENED_NS] * (1 + 2 * RECOVERED_ROUNDS)


def test_a_case_that_slows_the_board_after_a_quiet_round_keeps_its_longer_rest() -> None:
    pacer = Pacer(200_000, fixed_ns=None, limit_w=700, highest_mhz=HIGHEST_MHZ)
    for reading in [CAPPED, FAST, CAPPED] + [FAST] * 2 * RECOVERED_ROUNDS:
        pacer.observe(reading)

    assert pacer.rest_ns == 2 * LENGTHENED_NS


@pytest.mark.slow
@given(st.lists(st.builds(NvmlSample, st.none() | st.integers(200, 2000), st.none() | st.floats(0, 800))))
def test_the_same_readings_give_the_same_rest_and_it_shrinks_at_most_once(readings: list[NvmlSample]) -> None:
    one, other = (Pacer(200_000, fixed_ns=None, limit_w=700, highest_mhz=1980) for _ in range(2))
    rests = [one.rest_ns]
    for reading in readings:
        assert one.observe(reading) == other.observe(reading)
        rests.append(one.rest_ns)

    assert one.rest_ns == other.rest_ns
    shrunk = [after for before, after in pairwise(rests) if after < before]
    assert shrunk in ([], [rests[0]])


@pytest.mark.parametrize("duration_ns", [200_000, 1_400_000, 6_000_000])
@pytest.mark.parametrize("full_w", [800, 1100])
def test_the_clock_of_a_power_hungry_case_holds(measure: Measure, duration_ns: int, full_w: int) -> None:
    board = Board()
    manifest = measure(board, lambda: board.work(duration_ns, full_w=full_w), RoundPlan(rounds=100))

    assert not any(one.is_slowed for one in manifest.rounds)
    assert min(one.reading.sm_mhz or 0 for one in manifest.rounds) >= 0.99 * HIGHEST_MHZ
    walls_ns = [one.wall_ns for one in manifest.rounds]
    assert max(walls_ns) / min(walls_ns) < 1.01


def test_without_rest_the_same_board_slows_down_and_every_such_round_is_marked(measure: Measure) -> None:
    board = Board()
    manifest = measure(board, lambda: board.work(1_400_000, full_w=1100), RoundPlan(rounds=100, rest_ns=0))

    slowed = [one for one in manifest.rounds if one.is_slowed]
    assert len(slowed) > 10
    assert max(one.wall_ns for one in slowed) > 1.1 * manifest.rounds[0].wall_ns


def test_a_rest_that_proves_too_short_is_lengthened_until_the_clock_is_back(measure: Measure) -> None:
    board = Board()
    # Hungrier than any known kernel.
    manifest = measure(board, lambda: board.work(2_000_000, full_w=2600), RoundPlan(rounds=100))

    conditions = manifest.conditions["t.py::t"]
    assert conditions.last_rest_ns > conditions.rest_ns
    assert not any(one.is_slowed for one in manifest.rounds[50:])


def test_a_board_that_is_hot_from_the_case_before_settles_first(measure: Measure) -> None:
    board = Board()

    def body() -> None:
        board.work(100_000, full_w=400)

    board.pass_time(300e6, 1100)
    assert board.mhz == HIGHEST_MHZ - 60
    manifest = measure(board, body, RoundPlan(rounds=30))

    assert manifest.conditions["t.py::t"].settled_ns > 0
    assert not manifest.rounds[0].reading.reasons


def test_a_locked_clock_is_nobodys_fault(measure: Measure) -> None:
    board = Board(locked_mhz=1500)
    manifest = measure(board, lambda: board.work(300_000, full_w=500), RoundPlan(rounds=40))

    assert not any(one.is_slowed for one in manifest.rounds)


@pytest.mark.parametrize("duration_ns", [2_000, 20_000, 100_000, 300_000])
def test_forty_rounds_of_a_short_case_take_well_under_a_tenth_of_a_second(
    measure: Measure, duration_ns: int
) -> None:
    board = Board()
    manifest = measure(board, lambda: board.work(duration_ns, full_w=450), RoundPlan(rounds=40))

    conditions = manifest.conditions["t.py::t"]
    assert conditions.elapsed_ns < 80e6
    assert conditions.energy_mj is not None
    assert conditions.energy_mj / (conditions.elapsed_ns / 1e6) < 0.6 * 700


def test_what_else_ran_on_the_board_is_recorded(measure: Measure) -> None:
    board = Board(foreign_processes=("pid 123 (python)",))
    manifest = measure(board, lambda: board.work(20_000, full_w=450), RoundPlan(rounds=5))

    assert manifest.conditions["t.py::t"].foreign_processes == ("pid 123 (python)",)
