"""NVML's view of one GPU: its settings, its readings, and the foreign processes that compute on it.

The GPU is found by its UUID, because CUDA_VISIBLE_DEVICES renumbers boards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import psutil

from pytest_nsight.protocol.conditions import NvmlSample

# Bits of nvmlClocksEventReasons that mean "slower than asked for", from NVML's reference.
_SLOWDOWNS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class Nvml:
    """Readings of one GPU; without the nvidia-ml-py package, or without permission, they are empty."""

    def __init__(self, uuid: str) -> None:
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml  # noqa: PLC0415 - an optional dependency

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            self._nvml = pynvml
        except ImportError:
            self.missing = "nvidia-ml-py is not installed (pip install nvidia-ml-py)"
        except Exception as error:
            self.missing = f"NVML: {error}"
        else:
            self.missing = ""

    def environment(self) -> dict[str, str]:
        """Driver, board part number, power limit, ECC and MIG mode; a value that cannot be read is left out."""
        if self._nvml is None:
            return {"nvml": self.missing}
        nvml, handle = self._nvml, self._handle
        limit_w = self.power_limit_w()
        questions = {
            "driver": nvml.nvmlSystemGetDriverVersion,
            "board_part": lambda: nvml.nvmlDeviceGetBoardPartNumber(handle),
            "power_limit_w": lambda: None if limit_w is None else f"{limit_w:.0f}",
            "ecc": lambda: ("off", "on")[nvml.nvmlDeviceGetEccMode(handle)[0]],
            "mig": lambda: ("off", "on")[nvml.nvmlDeviceGetMigMode(handle)[0]],
        }
        answers = {name: self._ask(question) for name, question in questions.items()}
        return {name: str(answer) for name, answer in answers.items() if answer is not None}

    def read(self) -> NvmlSample:
        """Reads the clock, the power, the temperature and the slowdown reasons of this moment."""
        if self._nvml is None:
            return NvmlSample()
        nvml, handle = self._nvml, self._handle
        power_mw = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
        return NvmlSample(
            sm_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            power_w=None if power_mw is None else power_mw / 1000,
            temperature_c=self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            reasons=tuple(name for bit, name in _SLOWDOWNS.items() if reasons & bit),
        )

    def power_limit_w(self) -> float | None:
        """The power limit in force."""
        if self._nvml is None:
            return None
        limit_mw = self._ask(lambda: self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle))
        return None if limit_mw is None else limit_mw / 1000

    def energy_mj(self) -> int | None:
        """Energy drawn since the driver was loaded, in mJ; boards update it every 20 to 100 ms."""
        if self._nvml is None:
            return None
        energy = self._ask(lambda: self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        return None if energy is None else int(energy)

    def pids(self) -> tuple[int, ...]:
        """Processes that compute on the board, this one among them; empty where the driver lists none."""
        if self._nvml is None:
            return ()
        listed = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)) or ()
        return tuple(int(process.pid) for process in listed)

    def _ask(self, question: Any) -> Any:
        # With a driver that is too old for a function, the package raises ctypes' errors, too.
        try:
            return question()
        except (self._nvml.NVMLError, AttributeError, OSError, TypeError, ValueError):
            return None


_MOST_GENERATIONS = 100


def list_foreign_processes(
    listed: Iterable[int], own: int, root: int, parent: Callable[[int], int | None], name: Callable[[int], str]
) -> tuple[str, ...]:
    """The processes on a board that do not belong to the session.

    Args:
        listed: pids on the board as the driver lists them.
        own: this process, which is on the board.
        root: the controller; its descendants belong to the session.
        parent: pid -> its parent's, None if unknown.
        name: pid -> its name, "" if unknown.

    Returns:
        Texts such as "pid 123 (python)". Empty, too, if the driver lists this process under no or another pid, as
        it does from inside some containers: then its pids cannot be compared with ours.
    """
    pids = set(listed)
    if own not in pids:
        return ()
    foreign = sorted(pid for pid in pids if pid != own and not _descends(pid, (own, root), parent))
    return tuple(f"pid {pid} ({name(pid)})" if name(pid) else f"pid {pid}" for pid in foreign)


def _descends(pid: int, elders: tuple[int, int], parent: Callable[[int], int | None]) -> bool:
    ancestor: int | None = pid
    for _ in range(_MOST_GENERATIONS):
        if ancestor in elders:
            return True
        if ancestor is None or ancestor <= 1:
            return False
        ancestor = parent(ancestor)
    return False


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if there is no such process."""
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def name_of(pid: int) -> str:
    """The name of a process, "" if it cannot be read."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""
