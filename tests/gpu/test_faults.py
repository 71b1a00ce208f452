"""The faults that need a GPU, with the check that holds after every fault: see tests/faults.

They may run side by side: `python -m pytest tests/gpu/test_faults.py -n 6`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from tests.faults.fault import Fault
from tests.faults.on_gpu import FAULTS
from tests.faults.test_faults import check_fault

PARAMETERS = [pytest.param(fault, id=fault.name, marks=pytest.mark.xdist_group(fault.name)) for fault in FAULTS]


@pytest.mark.parametrize("fault", PARAMETERS)
def test_a_fault_on_a_gpu_costs_what_it_must(gpu: Installation, fault: Fault, tmp_path: Path) -> None:
    check_fault(fault, tmp_path)
