from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.profiling import export_command, profile_command
from pytest_nsight.model.errors import UsageError

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = pytest.mark.xdist_group("nsys")

NSYS = Installation(Path("/opt/nsys"), (2022, 4, 2, 1))


def test_profile_command_is_exactly_this():
    command = profile_command(NSYS, Path("/s/run-1.2.nsys-rep"), ("python", "-m", "pytest", "--k=%"))

    assert command == (
        "/opt/nsys",
        "profile",
        "--trace=cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--cuda-graph-trace=node",
        "--wait=primary",
        "--kill=none",
        "--export=none",
        "--force-overwrite=true",
        "--nvtx-domain-include=pytest_nsight",
        "--output=/s/run-1.2",
        "python",
        "-m",
        "pytest",
        "--k=%",
    )


@pytest.mark.parametrize(
    ("version", "discards"),
    [((2022, 4, 2, 1), False), ((2025, 1, 1, 131), False), ((2025, 6, 1, 190), True), ((2026, 4, 1), True)],
)
def test_the_environment_is_discarded_where_the_version_can(version, discards):
    command = profile_command(Installation(Path("/n"), version), Path("/a.nsys-rep"), ("true",))

    assert ("--discard-environment=true" in command) is discards


def test_the_users_ranges_are_recorded_if_asked():
    command = profile_command(NSYS, Path("/a.nsys-rep"), ("true",), recorded=RecordingOptions(user_ranges=True))

    assert not [word for word in command if "nvtx-domain" in word]


def test_export_command_is_exactly_this():
    assert export_command(NSYS, Path("/s/r.nsys-rep"), Path("/s/r.sqlite")) == (
        "/opt/nsys",
        "export",
        "--type=sqlite",
        "--force-overwrite=true",
        "--quiet=true",
        "--output=/s/r.sqlite",
        "/s/r.nsys-rep",
    )


@pytest.mark.parametrize("path", ["/s/100%n/r", "relative/r", "/s/r.other"])
def test_outputs_that_nsys_would_write_elsewhere_are_refused(path):
    suffixes = ("", "") if path.endswith("other") else (".nsys-rep", ".sqlite")

    with pytest.raises(UsageError, match=r"choose a folder|must be absolute"):
        profile_command(NSYS, Path(path + suffixes[0]), ("true",))
    with pytest.raises(UsageError, match=r"choose a folder|must be absolute"):
        export_command(NSYS, Path("/s/r.nsys-rep"), Path(path + suffixes[1]))


def test_the_installed_nsys_knows_every_option(installation, tmp_path):
    """A program that does not exist is complained about after the options were understood."""
    command = profile_command(installation, tmp_path / "r.nsys-rep", ("no-such-program",))
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    said = done.stdout + done.stderr
    assert not re.search("unrecogni[sz]ed|invalid", said)
    assert re.search("Program not found|Executable 'no-such-program' not found", said)
