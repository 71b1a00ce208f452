"""`--nsight -n N`: workers side by side, each with a GPU of its own. The GPUs are made up, the workers are real."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sessions.interrupting import interrupt_in_case

pytestmark = pytest.mark.long

Gate = Callable[..., pytest.RunResult]

PLUGINS = Path(__file__).parents[1] / "fakes/plugins"

SUITE = """
import time

def note(name):
    with open(os.environ["SEEN"], "a") as file:
        print(name, os.environ.get("CUDA_VISIBLE_DEVICES", "all"), os.getpid(), time.time(), file=file)

@pytest.mark.nsight
@pytest.mark.parametrize("number", range(4))
def test_many(nsight, number):
    nsight(square, torch.ones(8, 8))
    note(f"many{number}")
    if os.environ.get("DIE") == str(number):
        os.kill(os.getpid(), 9)

@pytest.mark.nsight(faster_than="slow")
@pytest.mark.parametrize("variant", ["fast", "slow"])
def test_claim(nsight, variant):
    nsight(square, torch.ones(8, 8) if variant == "fast" else torch.ones(1000, 1000))
    note(variant)

def test_plain():
    note("plain")
"""


@pytest.fixture
def two_gpus(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Arguments with which pytest finds two GPUs and two workers, and a file that lists which worker ran where."""
    monkeypatch.setenv("SEEN", str(pytester.path / "seen.txt"))
    monkeypatch.setenv("PYTHONPATH", str(PLUGINS), prepend=os.pathsep)
    return ("-p", "two_gpus", "--nsight-collector=torch", "-n", "2")


def seen(pytester: pytest.Pytester) -> dict[str, set[tuple[str, str]]]:
    """Case -> GPU and process of every time it ran."""
    found: dict[str, set[tuple[str, str]]] = {}
    for line in (pytester.path / "seen.txt").read_text().splitlines():
        name, gpu, process, _ = line.split()
        found.setdefault(name, set()).add((gpu, process))
    return found


def test_each_case_stays_on_one_gpu_and_claims_stay_together(
    gate: Gate, pytester: pytest.Pytester, two_gpus: tuple[str, ...]
) -> None:
    result = gate(*two_gpus, "--nsight-runs=2", "--nsight-keep", "-v", body=SUITE)

    assert result.ret == pytest.ExitCode.OK
    assert "test_plain PASSED" in result.stdout.str()
    gpus = {name: {gpu for gpu, _ in runs} for name, runs in seen(pytester).items()}
    assert gpus.pop("plain") == {"all"}
    assert all(len(places) == 1 for places in gpus.values()), gpus
    assert gpus["fast"] == gpus["slow"]
    placed = [next(iter(places)) for places in gpus.values()]
    assert sorted((placed.count("GPU-aaa"), placed.count("GPU-bbb"))) == [3, 3]
    assert {len(runs) for name, runs in seen(pytester).items() if name.startswith("many")} == {2}
    result.stdout.fnmatch_lines(["nsight: 2 workers, each on a GPU of its own; tests without the mark run here*"])


def test_a_worker_s_death_costs_the_others_nothing(
    gate: Gate, pytester: pytest.Pytester, two_gpus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIE", "1")

    result = gate(*two_gpus, "-v", "-k", "many", body=SUITE)

    result.assert_outcomes(passed=3, failed=1, deselected=3)
    result.stdout.fnmatch_lines(["*died with SIGKILL while test_case.py::test_many[[]1[]] ran*"])
    assert {next(iter(seen(pytester)[f"many{number}"]))[0] for number in (1, 3)} == {"GPU-bbb"}


def test_a_recorded_session_is_judged_again(
    gate: Gate, pytester: pytest.Pytester, two_gpus: tuple[str, ...]
) -> None:
    live = gate(*two_gpus, "--nsight-keep", "-k", "many", "--nsight-json=live.json", body=SUITE)
    live.assert_outcomes(passed=4, deselected=3)
    (session,) = (pytester.path / ".nsight").glob("2*")

    again = gate("--nsight-replay", str(session), "-k", "many", "--nsight-json=again.json")

    again.assert_outcomes(passed=4, deselected=3)
    first, second = (
        {one["fullname"]: one["stats"]["median"] for one in json.loads(path.read_text())["benchmarks"]}
        for path in (pytester.path / "live.json", pytester.path / "again.json")
    )
    assert first == second
    assert len(first) == 4


def test_an_interrupt_ends_every_worker(pytester: pytest.Pytester, two_gpus: tuple[str, ...]) -> None:
    pytester.makepyfile(
        test_case="""
        import time, pytest
        @pytest.mark.nsight
        @pytest.mark.parametrize("number", range(2))
        def test_slow(nsight, number):
            nsight(time.sleep, 600)
        """
    )

    code, output = interrupt_in_case(pytester, two_gpus, "worker-*")

    assert code == pytest.ExitCode.INTERRUPTED, output
    left = [pid for pid in Path("/proc").glob("[0-9]*") if _mentions(pid, str(pytester.path))]
    assert left == []


def _mentions(process: Path, text: str) -> bool:
    try:
        return text.encode() in (process / "cmdline").read_bytes() and int(process.name) != os.getpid()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-n", "2"), "*-n 2 with --nsight: there is no GPU here*run with -n 0*"),
        (("-p", "two_gpus", "-n", "3"), "*needs 3 GPUs and 2 are visible*run with -n 2*"),
        (("--tx", "2*popen"), "*--tx with --nsight*give -n instead*"),
    ],
)
def test_what_cannot_be_done_is_refused(
    gate: Gate, two_gpus: tuple[str, ...], arguments: tuple[str, ...], sentence: str
) -> None:
    result = gate("--nsight-collector=torch", *arguments, body=SUITE)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {sentence}"])


@pytest.mark.parametrize("count", ["0", "1", "auto", "logical"])
def test_one_worker_needs_no_gpu(
    gate: Gate, pytester: pytest.Pytester, two_gpus: tuple[str, ...], count: str
) -> None:
    result = gate("-n", count, "-k", "many and 0", body=SUITE)

    result.assert_outcomes(passed=1, deselected=6)
    assert {gpu for gpu, _ in seen(pytester)["many0"]} == {"all"}
