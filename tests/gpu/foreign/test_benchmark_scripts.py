"""Benchmark scripts of other projects, no line changed: a fusion that their library loses fails by name.

The scripts are in no package, so they come from checkouts in the folder that PYTEST_NSIGHT_CHECKOUTS names.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.protocol.script import FIRST_PASS, read_values
from tests.collectors.real import environment
from tests.gpu.foreign.conftest import lack
from tests.gpu.test_scripts_on_gpu import ScriptProject

pytestmark = pytest.mark.xdist_group("nsys")

CHECKOUTS = "PYTEST_NSIGHT_CHECKOUTS"
# A lost fusion is a larger change than 5 %, and with a wide band few unchanged cases need more runs.
OPTIONS = ("--nsight-collector=nsys", "--nsight-no-canaries", "--nsight-rounds=20", "--nsight-band=5%")

# Where a kernel is in the script itself, torch is the library: here it fills what it need not fill.
OTHER_TORCH = """
import torch

torch.empty_like = torch.zeros_like
"""


@dataclass(frozen=True)
class Theirs:
    """A script, and a change of the library that it measures.

    Attributes:
        project: name of the checkout.
        needed: the checkout's folder that the script needs.
        script: its file in there.
        cases: how many calls it makes.
        package: what it measures; where that is the script's own kernel, what it imports.
        module: file in the package to change, "" to change torch.
        before: text of the file.
        after: what replaces it.
        is_fused: whether the changed code is what a case measures, by its name and its place among the calls.
        runs: stored runs. From three on the gate judges times, too, but each takes as long as a check.
    """

    project: str
    needed: str
    script: str
    cases: int
    package: str
    module: str = ""
    before: str = ""
    after: str = ""
    is_fused: Callable[[str, int], bool] = lambda _name, _place: True
    runs: int = 1


SCRIPTS = (
    Theirs(
        project="Liger-Kernel",
        needed="benchmark/scripts",
        script="benchmark_softmax.py",
        cases=24,
        package="liger_kernel",
        module="ops/softmax.py",
        before=".contiguous().view(-1, n_cols)",
        after=".contiguous().clone().view(-1, n_cols)",
        # A helper makes all calls in one place: in each of three modes four sizes of torch's, then Liger's.
        is_fused=lambda _, place: place // 4 % 2 == 1,
        runs=3,
    ),
    Theirs(
        project="flash-linear-attention",
        needed="benchmarks",
        script="modules/benchmark_tokenshift.py",
        cases=54,
        package="fla",
        module="modules/token_shift.py",
        before="    y = torch.empty_like(x)\n",
        after="    x = x.clone()\n    y = torch.empty_like(x)\n",
        is_fused=lambda name, _: "-fused_token_shift" in name,
    ),
    Theirs(
        project="tilelang",
        needed="benchmark/blocksparse_attention",
        script="benchmark_triton_block_sparse_fmha.py",
        cases=1,
        package="tilelang",
        runs=3,
    ),
)


@dataclass
class TheirProject(ScriptProject):
    """A copy of a script, gated."""

    theirs: Theirs = SCRIPTS[0]

    def tools_ms(self) -> dict[str, float]:
        """Name of a case -> what the tool itself has measured, in the first pass of the last session."""
        values = read_values(max((self.folder / ".nsight").glob("2*")) / FIRST_PASS)
        found = {name: pickle.loads(value) for name, value in values.items()}
        return {name: value[0] if isinstance(value, Iterable) else value for name, value in found.items()}


@pytest.fixture(scope="module", params=SCRIPTS, ids=lambda theirs: theirs.project)
def saved(
    request: pytest.FixtureRequest, gpu: Installation, tmp_path_factory: pytest.TempPathFactory
) -> TheirProject:
    """The runs of a script are stored."""
    theirs: Theirs = request.param
    checkout = _find(theirs)
    # Scripts write their results, so the checkout itself is left alone.
    copied = tmp_path_factory.mktemp("theirs") / theirs.needed
    shutil.copytree(checkout / theirs.needed, copied)
    script = copied / theirs.script
    (script.parent / "pytest.ini").write_text("[pytest]\naddopts = -p no:randomly -p no:cacheprovider\n")
    project = TheirProject(script.parent, script=script.name, theirs=theirs)
    assert project.run(*OPTIONS, "--nsight-save", f"--nsight-runs={theirs.runs}") == 0, project.said
    return project


def _find(theirs: Theirs) -> Path:
    """The checkout with a script; without it the test is skipped, or fails if foreign programs are required."""
    folder = os.environ.get(CHECKOUTS)
    lacking = "" if folder else f"{CHECKOUTS} names no folder with checkouts (see CONTRIBUTING.md)"
    if folder and not (Path(folder) / theirs.project / theirs.needed / theirs.script).exists():
        lacking = f"{folder}/{theirs.project} has no {theirs.needed}/{theirs.script}"
    if importlib.util.find_spec(theirs.package) is None:
        lacking = f"{theirs.package} is not installed"
    if lacking:
        lack(lacking)
    return Path(str(folder)) / theirs.project


def _lose_a_fusion(theirs: Theirs, folder: Path) -> Path:
    """A folder for PYTHONPATH with a library that launches one kernel more than the installed one."""
    if not theirs.module:
        (folder / "sitecustomize.py").write_text(OTHER_TORCH)
        return folder
    found = importlib.util.find_spec(theirs.package)
    assert found is not None
    (origin,) = found.submodule_search_locations or ()
    shutil.copytree(origin, folder / theirs.package)
    module = folder / theirs.package / theirs.module
    text = module.read_text()
    assert theirs.before in text
    module.write_text(text.replace(theirs.before, theirs.after))
    return folder


def test_the_script_gets_the_tools_own_numbers_and_they_are_the_gates(saved: TheirProject) -> None:
    tools = saved.tools_ms()
    gates = {name: saved.median_ns(name) / 1e6 for name in tools}

    assert len(tools) == saved.theirs.cases
    # Kernels of a few microseconds wait longer for their launches, which the tool counts and the gate does not.
    slowest = max(gates, key=lambda name: gates[name])
    assert 0.7 < tools[slowest] / gates[slowest] < (1.5 if gates[slowest] > 0.1 else 20)


def test_an_unchanged_library_passes(saved: TheirProject) -> None:
    code = saved.run(*OPTIONS)

    assert code == 0, saved.said
    verdicts = saved.verdicts()
    assert len(verdicts) == saved.theirs.cases, saved.said
    assert not {"NO_BASELINE", "REGRESSION", "STRUCTURE"} & set(verdicts.values()), saved.said


def test_a_lost_fusion_fails_the_cases_of_that_provider_and_no_other(saved: TheirProject, tmp_path: Path) -> None:
    path = os.pathsep.join((str(_lose_a_fusion(saved.theirs, tmp_path)), environment()["PYTHONPATH"]))

    code = saved.run(*OPTIONS, PYTHONPATH=path)

    assert code == pytest.ExitCode.TESTS_FAILED, saved.said
    verdicts = saved.verdicts()
    fused = {name for place, name in enumerate(saved.tools_ms()) if saved.theirs.is_fused(name, place)}
    assert {name for name, verdict in verdicts.items() if verdict == "STRUCTURE"} == fused, saved.said
    assert "REGRESSION" not in verdicts.values(), saved.said
    for name in fused:
        # On a GPU torch clones by a copy, which is no launch.
        sentence = saved.subject(f"::{name}")["sentence"]
        assert "launches gained" in sentence or "copies changed" in sentence
