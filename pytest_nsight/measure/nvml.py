"""NVML's view of one GPU, found by its UUID so that CUDA_VISIBLE_DEVICES never misleads."""

from __future__ import annotations

from typing import Any

from pytest_nsight.manifest import Reading

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
            self.missing = "nvidia-ml-py is not installed (pip install pytest-nsight[gpu])"
        except Exception as error:
            self.missing = f"NVML: {error}"
        else:
            self.missing = ""

    def environment(self) -> dict[str, str]:
        """Driver, power limit, ECC and MIG mode; a value that cannot be read is left out."""
        if self._nvml is None:
            return {"nvml": self.missing}
        nvml, handle = self._nvml, self._handle
        questions = {
            "driver": nvml.nvmlSystemGetDriverVersion,
            "power_limit_w": lambda: f"{nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000:.0f}",
            "ecc": lambda: ("off", "on")[nvml.nvmlDeviceGetEccMode(handle)[0]],
            "mig": lambda: ("off", "on")[nvml.nvmlDeviceGetMigMode(handle)[0]],
        }
        answers = {name: self._ask(question) for name, question in questions.items()}
        return {name: str(answer) for name, answer in answers.items() if answer is not None}

    def read(self) -> Reading:
        """Reads the clock, the power, the temperature and the slowdown reasons of this moment."""
        if self._nvml is None:
            return Reading()
        nvml, handle = self._nvml, self._handle
        power_mw = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        reasons = self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
        return Reading(
            sm_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            power_w=None if power_mw is None else power_mw / 1000,
            temperature_c=self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            reasons=tuple(name for bit, name in _SLOWDOWNS.items() if reasons & bit),
        )

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except self._nvml.NVMLError:
            return None
