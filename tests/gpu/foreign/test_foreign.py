"""Programs that nobody here wrote, under the gate."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch

from tests.gpu.foreign.programs import PROGRAMS, Program

pytestmark = pytest.mark.foreign


def _marked(program: Program) -> Any:
    return pytest.param(program.name, id=program.name, marks=pytest.mark.nsight(metric=program.metric))


@pytest.mark.nsight
@pytest.mark.parametrize("program", [_marked(each) for each in PROGRAMS.values()], indirect=True)
def test_program(nsight: Any, program: Program, foreign_device: str, stack: ExitStack, waiting_cycles: int) -> None:
    body = program.build(foreign_device, stack)

    def measured() -> object:
        result = body()
        if foreign_device == "cuda":
            torch.cuda._sleep(waiting_cycles)
        return result

    nsight(measured)
