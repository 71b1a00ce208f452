"""Who had the CPU while a case was measured, and what that does to a verdict."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_nsight.processes.machine import cpu_variables, memory_settings
from pytest_nsight.protocol.conditions import CpuTimes
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.worker.host_state import read_cpu_times

MS = 1_000_000


def times(running_ms: int, waiting_ms: int | None, stolen_ms: int | None = 0, elapsed_ms: int = 100) -> CpuTimes:
    waiting_ns = None if waiting_ms is None else waiting_ms * MS
    stolen_ns = None if stolen_ms is None else stolen_ms * MS
    return CpuTimes(elapsed_ms * MS, running_ms * MS, waiting_ns, stolen_ns, running_ms * MS, 0)


@pytest.mark.parametrize(
    ("used", "share"),
    [
        (times(100, 0), 0.0),
        (times(60, 40), 0.4),
        (times(100, 0, stolen_ms=25), 0.25),
        (times(50, 50, stolen_ms=50), 0.75),
        (times(100, None, stolen_ms=10), 0.1),
        (times(0, 0), 0.0),
        (times(50, None, stolen_ms=None), None),
    ],
    ids=["alone", "other programs", "other machines", "both", "no schedstat", "idle", "nothing known"],
)
def test_the_share_that_others_took(used: CpuTimes, share: float | None) -> None:
    assert used.lost_share == (None if share is None else pytest.approx(share))


_amounts = st.integers(0, 2**60)


@given(_amounts, _amounts, st.none() | _amounts, st.none() | _amounts)
def test_the_share_is_one_whatever_the_counters_say(
    elapsed: int, running: int, waiting: int | None, stolen: int | None
) -> None:
    share = CpuTimes(elapsed, running, waiting, stolen, running, 0).lost_share

    assert share is None or 0 <= share <= 1


def test_counters_that_step_back_count_as_nothing() -> None:
    assert times(1, 1).since(times(5, 5, elapsed_ms=200)) == times(0, 0, elapsed_ms=0)


def spin(until_s: float) -> None:
    while time.monotonic() < until_s:
        pass


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="Linux counts waiting in schedstat")
def test_programs_on_the_same_cpu_are_seen() -> None:
    cpu = {min(os.sched_getaffinity(0))}
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpu)
    until_s = time.monotonic() + 2.5
    rivals = [multiprocessing.get_context("fork").Process(target=spin, args=(until_s,)) for _ in range(3)]
    try:
        for rival in rivals:
            rival.start()
        before = read_cpu_times()
        spin(time.monotonic() + 2)
        used = read_cpu_times().since(before)
    finally:
        os.sched_setaffinity(0, own)
        for rival in rivals:
            rival.join()

    # Four processes share one CPU: this one gets about a quarter of it.
    assert used.lost_share is not None
    assert used.lost_share > 0.3
    assert used.switches > 0
    assert used.running_ns < used.elapsed_ns


@pytest.mark.parametrize(
    ("asked", "environ", "threads"),
    [(None, {}, "1"), (None, {"OMP_NUM_THREADS": "4"}, None), (2, {"OMP_NUM_THREADS": "4"}, "2"), (8, {}, "8")],
)
def test_how_many_threads_an_operator_gets(asked: int | None, environ: dict[str, str], threads: str | None) -> None:
    assert cpu_variables(asked, environ).get("OMP_NUM_THREADS") == threads


def test_freed_memory_stays_with_the_process_unless_the_user_says_how() -> None:
    kept = {"MALLOC_MMAP_MAX_": "0", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}

    for unrelated in ({}, {"OMP_NUM_THREADS": "4"}, {"GLIBC_TUNABLES": ""}, {"MALLOC_ARENA_MAX": "2"}):
        assert kept.items() <= cpu_variables(None, unrelated).items()
    for chosen in ({"MALLOC_TRIM_THRESHOLD_": "0"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4096"}):
        assert not [name for name in cpu_variables(None, chosen) if "MALLOC" in name or "GLIBC" in name]


def test_other_tunables_of_glibc_stay() -> None:
    tunables = cpu_variables(None, {"GLIBC_TUNABLES": "glibc.pthread.rseq=0:"})["GLIBC_TUNABLES"]

    assert tunables == "glibc.pthread.rseq=0:glibc.malloc.tcache_count=0"


def test_what_malloc_keeps_is_said_in_one_way() -> None:
    ours = memory_settings(cpu_variables(None, {}))

    assert ours == "mmap_max=0, trim_threshold=68719476736, top_pad=67108864, tcache_count=0"
    assert memory_settings({"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}) == ""
    both = {"MALLOC_TOP_PAD_": "1", "GLIBC_TUNABLES": "glibc.malloc.top_pad=2"}
    assert memory_settings(both) == memory_settings({"GLIBC_TUNABLES": "glibc.malloc.top_pad=2"}) == "top_pad=2"


@pytest.fixture
def own_malloc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin's settings of malloc, whatever this environment says."""
    for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)
    # On a GPU nothing is set, because kernels are measured there.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.slow
@pytest.mark.usefixtures("own_malloc")
def test_a_round_that_allocates_what_the_last_one_freed_makes_no_page_faults(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import resource
        import pytest, torch

        @pytest.mark.nsight
        def test_allocates(nsight):
            faults = []
            x = torch.ones(12 << 20)

            def measured(x):
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                y = x + 1
                faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
                return y

            nsight(measured, x)
            # 48 MiB are 12288 pages, and more than glibc keeps by itself. Some first rounds touch them first.
            assert sorted(faults)[int(0.7 * len(faults))] < 100
        """
    )

    result = pytester.runpytest_subprocess("--nsight", "--nsight-runs=1", "--nsight-collector=torch")

    result.assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.usefixtures("own_malloc")
def test_the_memory_of_a_process_does_not_grow_with_the_rounds(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from pathlib import Path
        import pytest, torch
        import torch.nn.functional as F

        @pytest.mark.nsight(rounds=60)
        def test_backward(nsight):
            pages = []
            x, gradient = torch.randn(2, 512, 4096).unbind()
            weight = torch.ones(4096)

            def measured(x, weight, gradient):
                pages.append(int(Path("/proc/self/statm").read_text().split()[1]))
                leaves = x.detach().requires_grad_(), weight.detach().requires_grad_()
                out = F.rms_norm(leaves[0], (4096,), leaves[1])
                return torch.autograd.grad(out, leaves, gradient)

            nsight(measured, x, weight, gradient)
            # A tensor is 8 MiB; with its thread's cache glibc 2.36 grows by some of them in each round.
            assert pages[-1] - pages[len(pages) // 3] < 20 * 2048
        """
    )

    result = pytester.runpytest_subprocess("--nsight", "--nsight-runs=1", "--nsight-collector=torch")

    result.assert_outcomes(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "threads"), [((), 1), (("--nsight-cpu-threads=2",), 2)])
def test_a_measured_operator_gets_so_many_threads_and_the_head_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], threads: int
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pytester.makepyfile(f"""
import pytest, torch

@pytest.mark.nsight
def test_exp(nsight):
    assert torch.get_num_threads() == {threads}
    nsight(torch.exp, torch.ones(4))
""")

    result = pytester.runpytest_subprocess(
        "--nsight", "--nsight-save", "--nsight-runs=1", "--nsight-rounds=10", "--nsight-collector=torch", *options
    )

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"nsight: operators run on {threads} thread*"])
    (manifest,) = (read_manifest(path) for path in pytester.path.glob(".nsight/*/run-*/manifest.jsonl"))
    (conditions,) = manifest.conditions.values()
    assert conditions.processor is not None
    assert conditions.processor.running_ns > 0
    assert manifest.environment["threads"] == str(threads)
