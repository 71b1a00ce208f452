"""Sampling of GPU metrics: whether this nsys may do it on this machine, and the options that turn it on.

Where nsys may not sample, versions before 2024 record without metrics and say nothing, and later ones end before
the program starts. So it is asked first.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.known_errors import quote, recognise
from pytest_nsight.model.errors import NsysError
from pytest_nsight.processes.watchdog import watched

FREQUENCY_HZ = 20_000
"""A sample each 50 us: what is shorter is seen by none. The highest that nsys 2025 takes on an H200 is 200 kHz."""

_ASK_S = 30.0
# All versions take the shortest spelling; later ones call it --gpu-metrics-devices.
_OPTION = "--gpu-metrics-device"
_LISTED = re.compile(r"^\s*\d+\s*:", re.MULTILINE)


def metric_options(*, is_wanted: bool) -> tuple[str, ...]:
    """What `nsys profile` is given to sample the metrics of all boards; nothing where they are not wanted."""
    if not is_wanted:
        return ()
    return (
        # One board's number differs between CUDA, NVML and nsys under CUDA_VISIBLE_DEVICES.
        f"{_OPTION}=all",
        f"--gpu-metrics-frequency={FREQUENCY_HZ}",
    )


def check_sampling(installation: Installation) -> None:
    """Asks nsys which boards it can sample.

    Args:
        installation: which nsys.

    Raises:
        NsysError: none, or this user may not; quotes what nsys says.
    """
    answer = _ask(installation.path)
    if _LISTED.search(answer):
        return
    known = recognise(answer)
    if known is not None:
        raise NsysError(f"--nsight-gpu-metrics: {known.sentence}; or measure without the option")
    lines = [line for line in answer.splitlines() if line.strip() and "values are" not in line]
    said = quote(lines[0]) if lines else "nothing"
    raise NsysError(
        f"--nsight-gpu-metrics: Nsight Systems {installation.version_text} finds no board to sample (it says "
        f'"{said}"); measure without the option'
    )


def _ask(program: Path) -> str:
    command = [str(program), "profile", f"{_OPTION}=help"]
    try:
        answer = subprocess.run(
            command,
            env=watched(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NsysError(
            f"--nsight-gpu-metrics: {program} does not say which boards it can sample ({type(error).__name__}); "
            "run `pytest-nsight doctor`, or measure without the option"
        ) from None
    return answer.stdout + answer.stderr
