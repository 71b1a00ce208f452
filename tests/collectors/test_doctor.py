from __future__ import annotations

import pytest

from pytest_nsight.collectors import doctor as whole
from pytest_nsight.collectors.cupti.availability import CuptiInstallation
from pytest_nsight.collectors.nsys import checks as doctor
from pytest_nsight.collectors.nsys.checks import Check, checks
from pytest_nsight.collectors.nsys.find import CHOICE
from pytest_nsight.recorders.cupti.library import CuptiError

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nsys")]

NAMED = ("GPU", "NVML", "CUPTI", "nsys")
NAMES = [
    "nsys",
    "importer",
    "probe run",
    "NVTX",
    "temporary folder",
    "current folder",
    "other profilers",
    "permissions",
]


def test_all_is_well_where_nsys_works(installation):
    found = checks()

    assert [check.name for check in found] == NAMES
    assert [check for check in found if not check.ok or check.remedy] == []
    assert installation.version_text in found[0].detail


def test_every_failure_has_a_remedy_and_does_not_hide_the_other_checks(monkeypatch):
    monkeypatch.setenv(CHOICE, "/no/such/nsys")
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    monkeypatch.setenv("TMPDIR", "/no/such/folder")

    found = {check.name: check for check in checks()}

    assert [name for name, check in found.items() if not check.ok] == [
        "nsys",
        "temporary folder",
        "other profilers",
    ]
    assert all(check.remedy for check in found.values() if not check.ok)
    assert "/no/such/nsys" in found["nsys"].detail
    assert "/no/such/folder" in found["temporary folder"].detail
    assert "NSYS_PROFILING_SESSION_ID" in found["other profilers"].detail


@pytest.mark.parametrize(
    ("mode", "name", "words"),
    [
        ("no-importer", "probe run", "its importer is missing"),
        ("export-zeroes", "probe run", "could not export"),
    ],
)
def test_the_probe_finds_an_installation_that_only_looks_whole(mode, name, words, fake, monkeypatch):
    monkeypatch.setenv(CHOICE, str(fake.path))
    monkeypatch.setenv("NSYS_FAKE", mode)

    found = {check.name: check for check in checks()}

    assert found["nsys"].ok
    assert not found[name].ok
    assert words in found[name].detail
    assert not found["NVTX"].ok


def test_a_range_that_does_not_arrive_is_told(installation, monkeypatch):
    """A run without the range passes for a run, and not for NVTX."""
    monkeypatch.setattr(doctor, "_PROBE", "print('mechanism: none')")

    found = {check.name: check for check in checks()}

    assert found["probe run"].ok
    assert not found["NVTX"].ok
    assert "is not in the export (none)" in found["NVTX"].detail


@pytest.mark.parametrize(
    ("failed", "has_torch", "said"),
    [
        ((), True, "GPU kernels can be measured here."),
        (("nsys",), True, "GPU kernels cannot be measured here: see nsys."),
        (
            ("GPU", "NVML"),
            True,
            "see GPU, NVML. CPU operators can: pytest --nsight then takes the collector torch.",
        ),
        (("GPU",), False, "GPU kernels cannot be measured here: see GPU."),
        (("nsys", "CUPTI"), True, "GPU kernels cannot be measured here: see CUPTI, nsys."),
    ],
)
def test_the_last_line_says_what_can_be_measured(monkeypatch, failed, has_torch, said):
    monkeypatch.setattr(whole.importlib.util, "find_spec", lambda name: object() if has_torch else None)
    found = [
        Check(name, ok=name not in failed, detail="x", remedy="y")
        for name in NAMED
        if name in failed or name != "CUPTI"
    ]

    assert whole.render(found).splitlines()[-1].endswith(said)
    assert whole.can_measure(found) is (not failed)


def test_without_nsys_the_last_line_says_that_cupti_measures():
    found = [Check(name, ok=name != "nsys", detail="x", remedy="y") for name in ("GPU", "NVML", "CUPTI", "nsys")]

    assert whole.render(found).splitlines()[-1] == (
        "Nsight Systems cannot measure here: see nsys. CUPTI can: pytest --nsight then takes the collector cupti."
    )
    assert whole.can_measure(found)


@pytest.mark.parametrize("has_nsys", [True, False])
def test_cupti_has_to_work_only_where_nsys_does_not(monkeypatch, has_nsys):
    def refuse():
        raise CuptiError("no CUPTI can record here (x: too new); install the one of your CUDA's major version")

    monkeypatch.setattr(whole, "nsys_checks", lambda: (Check("nsys", ok=has_nsys, detail="x", remedy="y"),))
    monkeypatch.setattr(whole, "gpu_names", lambda: ["NVIDIA H200"])
    monkeypatch.setattr(whole, "find_working", refuse)

    (check,) = [check for check in whole.checks() if check.name == "CUPTI"]

    assert check.ok == has_nsys
    # The detail says what to do.
    assert check.detail.endswith("too new); install the one of your CUDA's major version")


def test_a_machine_without_torch_is_able(monkeypatch):
    """Kernels of CuPy, JAX or Numba are measured, too."""
    monkeypatch.setattr(whole, "nsys_checks", lambda: ())
    monkeypatch.setattr(whole, "gpu_names", lambda: ["NVIDIA H200"])
    monkeypatch.setattr(whole, "_nvml", lambda: Check("NVML", ok=True, detail="driver 580"))
    monkeypatch.setattr(whole.importlib.util, "find_spec", lambda name: None)

    monkeypatch.setattr(whole, "find_working", lambda: CuptiInstallation("libcupti.so.13", 130000))

    assert [check.ok for check in whole.checks()] == [True, True, True, True]
