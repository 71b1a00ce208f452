"""The canaries: what they are, where they are measured, and that they never harm a test."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_nsight.model.values import Work
from pytest_nsight.protocol.job import Assignment, Job
from pytest_nsight.protocol.journal import Journal
from pytest_nsight.protocol.manifest import Manifest
from pytest_nsight.protocol.manifest_reader import read_manifest
from pytest_nsight.protocol.ranks import no_barrier
from pytest_nsight.worker import measured_case
from pytest_nsight.worker.canaries import NAMES, Canary, Prepared, choose_places, due, make_canaries
from pytest_nsight.worker.extra_rounds import CanarySchedule
from pytest_nsight.worker.measured_case import MeasuredRun
from pytest_nsight.worker.rounds import RoundRunner
from tests.worker.board import Board, Silent

SHRINK = 64


class RestlessBoard(Board):
    """A device that never needs a rest, and counts."""

    needs_rest = False

    def __init__(self, *canaries: Canary) -> None:
        super().__init__()
        self.canaries = canaries
        self.flushed = self.released = 0

    def flush(self) -> None:
        self.flushed += 1

    def release(self) -> None:
        self.released += 1


class Operators(TorchDispatchMode):
    """Lists what reaches the device."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def small() -> dict[str, Canary]:
    return {canary.name: canary for canary in make_canaries(torch, "cpu", 50 << 20, SHRINK)}


def test_there_are_eight_and_all_are_named(small: dict[str, Canary]) -> None:
    assert tuple(small) == NAMES
    assert small["copy"].case == "nsight_canaries::copy"
    assert [name for name, canary in small.items() if not canary.cold_cache] == ["l2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_round_is_one_operator_and_the_same_in_every_process(small: dict[str, Canary], name: str) -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = small[name].prepare()
    torch.manual_seed(4)
    second = small[name].prepare()

    with Operators() as operators:
        first.body()
    assert len(operators.names) == 1, operators.names
    assert torch.equal(first.body(), second.body())  # type: ignore[arg-type]
    torch.manual_seed(3)
    assert torch.equal(before, torch.get_rng_state())


def test_what_the_canaries_compute_is_what_they_say(small: dict[str, Canary]) -> None:
    copied = small["copy"].prepare()
    matmul = small["matmul"].prepare()
    sums, picked = (small[name].prepare().body() for name in ("reduction", "gather"))

    assert copied.work == Work(bytes_moved=2 * 4 * (1 << 28) // SHRINK)
    m, k, n = 8192 // SHRINK, 4096 // SHRINK, 8192 // SHRINK
    assert matmul.work == Work(bytes_moved=2 * (m * k + k * n + m * n), flops=2 * m * k * n)
    assert isinstance(sums, torch.Tensor)
    assert sums.shape == (32768,)
    assert isinstance(picked, torch.Tensor)
    assert picked.shape[1] * picked.element_size() == 128


def test_a_full_size_canary_never_needs_more_than_two_gigabytes() -> None:
    class Counting:
        """Stands in for torch: makes tensors without memory, and adds up what they would need."""

        total = 0

        def __getattr__(self, name: str) -> object:
            return getattr(torch, name)

        def Generator(self, device: str) -> object:  # noqa: N802 - torch's
            del device
            return torch.Generator()

        def randn(self, *shape: int, generator: object, **options: object) -> torch.Tensor:
            del generator
            return torch.empty(*shape, **options)

        def randperm(self, rows: int, generator: object, device: str) -> torch.Tensor:
            del generator
            return torch.empty(rows, dtype=torch.int64, device=device)

    for canary in make_canaries(Counting(), "meta", 50 << 20):
        body = canary.prepare().body
        tensors = [cell.cell_contents for cell in body.__closure__ or () if torch.is_tensor(cell.cell_contents)]

        assert 0 < sum(tensor.nbytes for tensor in tensors) <= 2 << 30


def test_places_are_random_fixed_by_the_seed_and_never_before_the_first_case() -> None:
    places = [choose_places(20, seed) for seed in range(400)]
    firsts = Counter(next(iter(place)) for place in places)

    assert choose_places(20, 7) == choose_places(20, 7)
    assert all(set(place) == set(NAMES) and min(place.values()) >= 1 for place in places)
    assert set(firsts) == set(NAMES)
    assert {place["copy"] for place in places} == set(range(1, 21))
    assert set(choose_places(1, 3).values()) == set(choose_places(0, 3).values()) == {1}


def test_each_is_measured_once_even_if_the_first_cases_measured_nothing(tmp_path: Path) -> None:
    bench = RestlessBoard(*make_canaries(torch, "cpu", 1 << 20, 1024))
    journal = Journal(tmp_path / "manifest.jsonl")
    runner = RoundRunner(bench, Silent(), journal)
    rota = CanarySchedule(cases=6, seed=random.SystemRandom().getrandbits(32))
    for done in (3, 4, 6, 6):
        rota.measure(runner, journal, done, rounds=2)

    manifest = read_manifest(tmp_path / "manifest.jsonl")
    assert sorted(manifest.started) == sorted(f"nsight_canaries::{name}" for name in NAMES)
    assert manifest.started == manifest.ended
    assert Counter(one.case for one in manifest.rounds) == dict.fromkeys(manifest.started, 2)
    assert bench.flushed >= 2 * 7
    assert bench.released == 8
    works = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert {one["case"] for one in works if one["event"] == "work"} == {
        f"nsight_canaries::{name}" for name in ("copy", "triad", "matmul")
    }


def test_one_that_fails_is_recorded_and_the_rest_go_on(tmp_path: Path) -> None:
    def exhaust() -> Prepared:
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 9 GiB")

    def fail() -> object:
        raise RuntimeError("sticky")

    bench = RestlessBoard(
        Canary("copy", exhaust), Canary("triad", lambda: Prepared(fail)), Canary("tiny", lambda: Prepared(int))
    )
    journal = Journal(tmp_path / "manifest.jsonl")
    CanarySchedule(cases=1, seed=1).measure(RoundRunner(bench, Silent(), journal), journal, 1, rounds=2)

    manifest = read_manifest(tmp_path / "manifest.jsonl")
    assert manifest.ended == ("nsight_canaries::tiny",)
    assert {fault.case: fault.text for fault in manifest.canary_faults} == {
        "nsight_canaries::copy": "OutOfMemoryError: CUDA out of memory.",
        "nsight_canaries::triad": "RuntimeError: sticky",
    }


def measure_canaries(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    assignment: Assignment,
    rounds: int | None,
    *,
    of_job: bool = True,
) -> Manifest:
    """What a process has recorded that measures canaries after its only case."""
    board = RestlessBoard(*(Canary(name, lambda: Prepared(int)) for name in NAMES))
    monkeypatch.setattr(measured_case, "current_device", lambda _root_pid: board)
    job = Job("s/001", "s", "", "", "nsys", rounds, (), (), {}, canaries=of_job)
    run = MeasuredRun(job, Journal(folder / "manifest.jsonl"), Silent(), no_barrier)
    run.assign(assignment, [])
    run.start_runner()
    run.finish_case("t.py::t", is_last=True)
    return read_manifest(folder / "manifest.jsonl")


@pytest.mark.parametrize(
    ("of_job", "of_assignment", "measured"), [(True, True, 8), (False, True, 0), (True, False, 0)]
)
def test_they_are_measured_where_job_and_assignment_ask_for_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_job: bool, of_assignment: bool, measured: int
) -> None:
    assignment = Assignment(("t.py::t",), canaries=of_assignment)

    manifest = measure_canaries(monkeypatch, tmp_path, assignment, 2, of_job=of_job)

    assert len(manifest.ended) == measured == (len(NAMES) if measured else 0)


@pytest.mark.parametrize(("asked", "rounds"), [(None, 3), (2, 2)])
def test_an_assignment_says_how_many_rounds_they_have_unless_the_user_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: int | None, rounds: int
) -> None:
    manifest = measure_canaries(monkeypatch, tmp_path, Assignment(("t.py::t",), canary_rounds=3), asked)

    counted = Counter(one.case for one in manifest.rounds)
    assert counted == {f"nsight_canaries::{name}": rounds for name in NAMES}


def test_nothing_is_due_twice() -> None:
    places = {"copy": 1, "tiny": 3}

    assert due(places, 2, ()) == ["copy"]
    assert due(places, 3, {"copy"}) == ["tiny"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_each_is_one_kernel() -> None:
    size = torch.cuda.get_device_properties(0).L2_cache_size
    for canary in make_canaries(torch, "cuda", size):
        body = canary.prepare().body
        for _ in range(3):
            body()
        torch.cuda.synchronize()
        with torch.profiler.profile() as profile:
            body()
            torch.cuda.synchronize()
        kernels = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]

        assert len(kernels) == 1, f"{canary.name}: {kernels}"
