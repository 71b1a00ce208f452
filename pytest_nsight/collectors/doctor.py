"""Can this machine measure: GPU, driver, NVML, torch, Nsight Systems; each line with its remedy."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from pytest_nsight.collectors.cupti.availability import find_working
from pytest_nsight.collectors.nsys.checks import Check
from pytest_nsight.collectors.nsys.checks import checks as nsys_checks
from pytest_nsight.processes.machine import gpu_names
from pytest_nsight.recorders.cupti.library import CuptiError

_GPU, _CUPTI = "GPU", "CUPTI"
_OF_NSYS = frozenset(("nsys", "importer", "probe run", "NVTX"))


def checks() -> tuple[Check, ...]:
    """One check for each thing that `pytest --nsight` needs; takes some seconds."""
    of_nsys = nsys_checks()
    has_nsys = all(check.ok for check in of_nsys if check.name in _OF_NSYS)
    return (_gpu(), _nvml(), _torch(), _cupti(is_needed=not has_nsys), *of_nsys)


def render(found: Sequence[Check]) -> str:
    """One line for each check, its remedy below it where there is one, and what follows from all of them."""
    width = max(len(check.name) for check in found)
    lines = []
    for check in found:
        lines.append(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<{width}}  {check.detail}")
        if not check.ok and check.remedy:
            lines.append(f"      {'':<{width}}  -> {check.remedy}")
    return "\n".join([*lines, "", _conclude(found)])


def can_measure(found: Sequence[Check]) -> bool:
    """Whether GPU kernels can be measured: through Nsight Systems, or through CUPTI if only the former fails."""
    failed = _list_failed(found)
    return not failed or (_OF_NSYS.issuperset(failed) and any(check.name == _CUPTI for check in found))


def _list_failed(found: Sequence[Check]) -> list[str]:
    return [check.name for check in found if not check.ok]


def _conclude(found: Sequence[Check]) -> str:
    failed = _list_failed(found)
    if not failed:
        return "GPU kernels can be measured here."
    if can_measure(found):
        return (
            f"Nsight Systems cannot measure here: see {', '.join(failed)}. CUPTI can: pytest --nsight then takes "
            "the collector cupti."
        )
    first = f"GPU kernels cannot be measured here: see {', '.join(failed)}."
    if _GPU in failed and importlib.util.find_spec("torch") is not None:
        return f"{first} CPU operators can: pytest --nsight then takes the collector torch."
    return first


def _gpu() -> Check:
    if names := gpu_names():
        return Check(_GPU, ok=True, detail=", ".join(names))
    return Check(
        _GPU,
        ok=False,
        detail="the CUDA driver offers none",
        remedy="install the driver, look at CUDA_VISIBLE_DEVICES, or measure CPU operators (collector torch)",
    )


def _cupti(*, is_needed: bool) -> Check:
    """Whether CUPTI records in a process; beside Nsight Systems, which has its own, nothing depends on it."""
    if not gpu_names():
        return Check(_CUPTI, ok=True, detail="not tried: the CUDA driver offers no GPU")
    try:
        found = find_working()
    except CuptiError as error:
        spare = "" if is_needed else "Nsight Systems does not need it; the collector cupti does: "
        return Check(_CUPTI, ok=not is_needed, detail=f"{spare}{error}")
    return Check(_CUPTI, ok=True, detail=f"{found.path}, version {found.version}")


def _nvml() -> Check:
    if importlib.util.find_spec("pynvml") is None:
        return Check(
            "NVML",
            ok=False,
            detail="the package nvidia-ml-py is missing: no clocks, no power, no slowdown reasons",
            remedy="pip install nvidia-ml-py",
        )
    import pynvml  # noqa: PLC0415 - an optional dependency

    try:
        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        return Check("NVML", ok=False, detail=str(error), remedy="install the NVIDIA driver")
    return Check("NVML", ok=True, detail=f"driver {driver}")


def _torch() -> Check:
    if importlib.util.find_spec("torch") is None:
        return Check("torch", ok=True, detail="not installed; tests of other libraries do not need it")
    import torch  # noqa: PLC0415 - heavy

    built_for = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for CPU only"
    detail = f"{torch.__version__}, built {built_for}"
    if torch.cuda.is_available() or not gpu_names():
        return Check("torch", ok=True, detail=detail)
    return Check("torch", ok=False, detail=detail, remedy="install a torch that was built for this driver's CUDA")
