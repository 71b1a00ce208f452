"""What NVML says of the board, and that its silence is never taken for an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_nsight.worker.nvml import Nvml, list_foreign_processes, name_of, parent_of


class NVMLError(Exception):
    pass


class Driver:
    """Stands in for the package pynvml; what is not set raises as a driver does that lacks it."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return uuid

    def __getattr__(self, name: str) -> Any:
        def answer(*_: Any) -> Any:
            if name not in self._answers:
                raise NVMLError("Not Supported")
            return self._answers[name]

        return answer


def nvml(monkeypatch: pytest.MonkeyPatch, driver: object) -> Nvml:
    monkeypatch.setitem(sys.modules, "pynvml", driver)  # type: ignore[arg-type]
    return Nvml("GPU-1")


def test_energy_limit_and_processes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [SimpleNamespace(pid=7, usedGpuMemory=None), SimpleNamespace(pid=9, usedGpuMemory=1)]
    board = nvml(
        monkeypatch,
        Driver(
            nvmlDeviceGetTotalEnergyConsumption=123_456,
            nvmlDeviceGetEnforcedPowerLimit=700_000,
            nvmlDeviceGetComputeRunningProcesses=listed,
        ),
    )

    assert (board.energy_mj(), board.power_limit_w(), board.pids()) == (123_456, 700.0, (7, 9))


def test_the_environment_names_what_times_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    board = nvml(
        monkeypatch,
        Driver(
            nvmlSystemGetDriverVersion="580.159.04",
            nvmlDeviceGetBoardPartNumber="692-2G520-0282-001",
            nvmlDeviceGetEnforcedPowerLimit=700_000,
            nvmlDeviceGetEccMode=(1, 1),
        ),
    )

    assert board.environment() == {
        "driver": "580.159.04",
        "board_part": "692-2G520-0282-001",
        "power_limit_w": "700",
        "ecc": "on",
    }


def test_a_driver_that_refuses_everything_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    board = nvml(monkeypatch, Driver())

    assert (board.energy_mj(), board.power_limit_w(), board.pids()) == (None, None, ())
    assert board.read().sm_mhz is None


def test_a_package_without_the_functions_or_none_at_all_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    old = SimpleNamespace(NVMLError=NVMLError, nvmlInit=lambda: None, nvmlDeviceGetHandleByUUID=str)
    for driver in (old, None):
        board = nvml(monkeypatch, driver)

        assert (board.energy_mj(), board.power_limit_w(), board.pids()) == (None, None, ())


FAMILY = {2: 1, 50: 2, 51: 50, 60: 1, 61: 60}
NAMES = {60: "python", 61: "trainer"}


def describe(*listed: int, own: int = 51, root: int = 50) -> tuple[str, ...]:
    return list_foreign_processes(listed, own, root, FAMILY.get, lambda pid: NAMES.get(pid, ""))


def test_strangers_are_named_and_the_session_is_not() -> None:
    assert describe(51) == ()
    assert describe(50, 51) == ()
    assert describe(51, 61, 60, 2, 999) == ("pid 2", "pid 60 (python)", "pid 61 (trainer)", "pid 999")


def test_where_the_driver_lists_us_under_no_pid_of_ours_nothing_is_known() -> None:
    assert describe(4711, 4712) == ()
    assert describe() == ()


def test_a_circle_of_parents_ends() -> None:
    assert list_foreign_processes([8, 9], 9, 1, {8: 7, 7: 8}.get, lambda _: "") == ("pid 8",)


def test_parents_and_names_come_from_proc() -> None:
    with subprocess.Popen(["sleep", "20"]) as child:
        try:
            assert parent_of(child.pid) == os.getpid()
            assert name_of(child.pid) in ("sleep", name_of(os.getpid()))
        finally:
            child.kill()

    assert parent_of(2**30) is None
    assert name_of(2**30) == ""
