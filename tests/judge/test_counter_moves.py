"""Which counter moved: the cause is named before what follows from it, and equal profiles move nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.judge.counter_moves import describe_counters, describe_moves, find_moves
from pytest_nsight.model.kernel_counters import Counter, KernelCounters

SOUND = {
    "sm_throughput": 24.0,
    "memory_throughput": 81.0,
    "occupancy": 91.0,
    "l2_hit_rate": 33.0,
    "dram_bytes": 2e8,
    "registers": 32.0,
    "local_bytes": 0.0,
    "shared_bytes": 1024.0,
    "sectors_per_request": 4.0,
}


def counters(**changed: float) -> KernelCounters:
    return KernelCounters("k", 3, {**SOUND, **changed})


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        (
            {"local_bytes": 5e7, "dram_bytes": 2.6e8, "registers": 24, "memory_throughput": 95},
            [Counter.LOCAL_BYTES, Counter.REGISTERS, Counter.DRAM_BYTES, Counter.MEMORY_THROUGHPUT],
        ),
        (
            {"sectors_per_request": 32, "l2_hit_rate": 80, "sm_throughput": 6},
            [Counter.SECTORS_PER_REQUEST, Counter.L2_HIT_RATE, Counter.SM_THROUGHPUT],
        ),
        ({"occupancy": 46, "shared_bytes": 49152}, [Counter.OCCUPANCY, Counter.SHARED_BYTES]),
        ({"local_bytes": 2048.0, "occupancy": 88.0, "dram_bytes": 2.1e8}, []),
    ],
)
def test_causes_stand_before_effects_and_noise_is_none(changed: dict[str, float], moved: list[Counter]) -> None:
    assert [one.counter for one in find_moves(counters(), counters(**changed))] == moved


def test_the_sentence_names_the_counter_its_values_and_what_they_are_compared_with() -> None:
    text = describe_moves(counters(), counters(local_bytes=12.6e6, registers=168), "1a2b3c4 (main)")

    assert text == (
        "Nsight Compute on k, against 1a2b3c4 (main): spilled registers and local arrays 0 B -> 12.6 MB, "
        "registers 32.0 -> 168"
    )
    assert describe_moves(counters(), counters(), "main").endswith("main: no counter moved")


def test_without_a_comparison_all_counters_are_given() -> None:
    text = describe_counters(KernelCounters("k", 1, {"occupancy": 46.0, "registers": 32.0}))

    assert text == "Nsight Compute on k: achieved occupancy 46 %, registers 32.0"


@given(st.dictionaries(st.sampled_from([one.value for one in Counter]), st.floats(0, 1e15)))
def test_a_kernel_does_not_differ_from_itself(values: dict[str, float]) -> None:
    one = KernelCounters("k", 1, values)

    assert find_moves(one, one) == ()
