"""The table of faults, each made for real. How to add one: an entry in the module of its subject, see fault.py."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults import on_gpu, shared_check
from tests.faults.fault import HEAD, Fault
from tests.faults.running import check_needs, started
from tests.faults.table import FAULTS


def parameters() -> list[object]:
    """The faults with their marks: all are long, and CI runs the fast ones, too."""
    found = []
    for fault in FAULTS:
        marks = [pytest.mark.long]
        if fault.is_fast:
            marks.append(pytest.mark.slow)
        if "nsys" in fault.needs:
            # Two sessions of nsys 2022.4 that start at one moment can end each other.
            marks.append(pytest.mark.xdist_group("nsys"))
        found.append(pytest.param(fault, id=fault.name, marks=marks))
    return found


@pytest.mark.parametrize("fault", parameters())
def test_a_fault_costs_what_it_must_and_nothing_else(fault: Fault, tmp_path: Path) -> None:
    check_fault(fault, tmp_path)


def test_every_project_is_python_and_every_name_stands_once() -> None:
    faults = (*FAULTS, *on_gpu.FAULTS)

    assert len({fault.name for fault in faults}) == len(faults)
    for fault in faults:
        for name, text in {"test_case.py": HEAD + fault.test, **fault.files}.items():
            if name.endswith(".py") and isinstance(text, str):
                ast.parse(text, f"{fault.name}: {name}")


def check_fault(fault: Fault, root: Path) -> None:
    """Makes a fault and checks what came of it."""
    check_needs(fault)
    with started(fault, root) as running:
        files, baselines = shared_check.list_files(running), shared_check.read_baselines(running)
        running.run(fault, (*fault.command, *fault.options), is_first=True)
        if fault.afterwards:
            running.run(fault, fault.afterwards, is_first=False)
        assert running.codes[0] == fault.code, running.outputs[0]
        for number, sentences in enumerate((fault.says, fault.later)):
            for sentence in sentences:
                assert join(running.fill(sentence)) in join(running.outputs[number]), running.outputs[number]
        for sentence in fault.never:
            assert running.fill(sentence) not in running.outputs[0]
        shared_check.check(fault, running, files, baselines)


def join(text: str) -> str:
    """The text in one line: where a terminal breaks it does not matter."""
    return " ".join(text.split())
