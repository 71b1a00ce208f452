from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from pytest_nsight.collectors.nsys import find as module
from pytest_nsight.collectors.nsys.find import CHOICE, Installation, candidates, find, inspect
from pytest_nsight.model.errors import NsysError
from tests.collectors.real import require_nsys

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = pytest.mark.xdist_group("nsys")


@pytest.fixture
def only(monkeypatch):
    """Hides the machine's own programs: `find` then sees just the given folders on PATH."""

    def limit(*folders):
        monkeypatch.delenv(CHOICE, raising=False)
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
        for name in ("CUDA_HOME", "CUDA_PATH"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(module, "_PLACES", ())

    return limit


@pytest.mark.parametrize(
    "place",
    [
        "usr/local/cuda-12.4/bin/nsys",
        "usr/local/cuda-12.4/nsight-systems-2023.4.4/target-linux-x64/nsys",
        "opt/nvidia/nsight-systems/2025.1.1/bin/nsys",
        "opt/nvidia/nsight-systems/2025.1.1/target-linux-sbsa-armv8/nsys",
        "opt/nvidia/nsight-systems-cli/2026.4.1/target-linux-x64/nsys",
        "opt/nvidia/nsight-compute/2025.3.1/host/target-linux-x64/nsys",
        "usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64/nsys",
    ],
)
def test_every_usual_folder_is_searched(place, plant_nsys, tmp_path):
    program = plant_nsys(tmp_path / place)

    assert candidates({"PATH": ""}, [tmp_path]) == (program,)


def test_path_comes_first_and_links_count_once(plant_nsys, tmp_path):
    installed = plant_nsys(tmp_path / "opt/nvidia/nsight-systems/2025.1.1/bin/nsys")
    other = plant_nsys(tmp_path / "usr/local/cuda/bin/nsys")
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin" / "nsys"
    link.symlink_to(installed)

    assert candidates({"PATH": f"{link.parent}::/nowhere"}, [tmp_path]) == (link, other)


def test_cuda_home_is_searched_and_files_that_cannot_run_are_not_taken(plant_nsys, tmp_path):
    plant_nsys(tmp_path / "a" / "nsys").chmod(0o644)
    (tmp_path / "b" / "nsys").mkdir(parents=True)
    toolkit = plant_nsys(tmp_path / "toolkit" / "bin" / "nsys")
    environ = {"PATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}", "CUDA_HOME": str(tmp_path / "toolkit")}

    assert candidates(environ, [tmp_path / "empty"]) == (toolkit,)


def test_the_newest_that_works_is_taken(plant_nsys, plant_importer, tmp_path, only):
    """A newer one without its importer loses against an older one that is whole."""
    newest = plant_nsys(tmp_path / "new" / "target-linux-x64" / "nsys")
    newest.write_text(newest.read_text().replace("2025.3.2.0-1", "2026.4.1.10-1"))
    plant_nsys(tmp_path / "old" / "target-linux-x64" / "nsys")
    importer = plant_importer(tmp_path / "old" / "host-linux-x64")
    only(newest.parent, tmp_path / "old" / "target-linux-x64")

    found = find()

    assert found == Installation(
        tmp_path / "old" / "target-linux-x64" / "nsys", (2025, 3, 2, 0), importer, problems=()
    )
    plant_importer(tmp_path / "new" / "host-linux-x64")
    assert find().version == (2026, 4, 1, 10)


def test_of_equal_versions_the_first_on_path_is_taken(plant_nsys, tmp_path, only):
    paths = [plant_nsys(tmp_path / name / "nsys") for name in "ba"]
    only(*(path.parent for path in paths))

    assert find().path == paths[0]


def test_the_choice_beats_a_newer_one(plant_nsys, tmp_path, only, monkeypatch):
    chosen, other = plant_nsys(tmp_path / "chosen" / "nsys"), plant_nsys(tmp_path / "other" / "nsys")
    other.write_text(other.read_text().replace("2025.3", "2026.4"))
    only(other.parent)

    assert find(str(chosen)).path == chosen
    monkeypatch.setenv(CHOICE, str(chosen))
    assert find().path == chosen


def test_no_nsys_anywhere_says_how_to_get_one(only, tmp_path):
    only(tmp_path)

    with pytest.raises(
        NsysError, match=r"There is no nsys on PATH.* install .*nsight-systems-cli.*PYTEST_NSIGHT_NSYS"
    ):
        find()


def test_a_choice_that_does_not_exist_is_an_error_even_if_another_works(plant_nsys, tmp_path, only):
    only(plant_nsys(tmp_path / "nsys").parent)

    with pytest.raises(NsysError, match=r"The chosen nsys, /no/such/nsys, is not a program"):
        find("/no/such/nsys")


def test_too_old_and_mute_ones_are_named_with_the_reason(plant_nsys, tmp_path, only, monkeypatch):
    old, mute = plant_nsys(tmp_path / "old" / "nsys"), plant_nsys(tmp_path / "mute" / "nsys")
    old.write_text(old.read_text().replace("2025.3.2.0-1", "2021.1.1.66-6c5c5cb"))
    mute.write_text(mute.read_text().replace('"fine"', '"mute"'))
    only(old.parent, mute.parent)

    with pytest.raises(NsysError) as caught:
        find()

    assert f"{old} (2021.1.1.66): it is older than 2022.4; install" in str(caught.value)
    assert f"{mute} (unknown version): it does not answer to --version" in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_a_program_that_cannot_be_executed_is_a_problem_and_not_a_crash(tmp_path, only):
    """Toolkits hold an nsys for other CPUs, too."""
    foreign = tmp_path / "nsys"
    foreign.write_bytes(b"\x7fELF of another CPU")
    foreign.chmod(0o755)
    only(tmp_path)

    with pytest.raises(NsysError, match="does not answer to --version"):
        find()


def test_a_missing_importer_is_named(plant_nsys, tmp_path):
    program = plant_nsys(tmp_path / "target-linux-x64" / "nsys")

    (problem,) = inspect(program, (2023, 4)).problems

    assert f"its importer {tmp_path}/host-linux-x64/QdstrmImporter is missing" in problem


@pytest.mark.parametrize(
    ("target", "host"),
    [
        ("usr/lib/x86_64-linux-gnu/nsight-systems/target-linux-x64", "usr/lib/nsight-systems/host-linux-x64"),
        ("opt/host/target-linux-x64", "opt/host/linux-desktop-glibc_2_11_3-x64"),
    ],
    ids=["Debian", "Nsight Compute"],
)
def test_the_remedy_for_an_importer_in_another_folder_works(target, host, plant_nsys, plant_importer, tmp_path):
    """The command in the message, executed, makes the installation whole."""
    program = plant_nsys(tmp_path / target / "nsys")
    importer = plant_importer(tmp_path / host)

    (problem,) = inspect(program, (2024, 2)).problems
    command = problem.split("`")[1]
    subprocess.run(command, shell=True, check=True)

    whole = inspect(program, (2024, 2))
    assert whole.problems == ()
    assert whole.importer is not None
    assert whole.importer.resolve() == importer


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_missing_libraries_of_the_importer_are_named(plant_nsys, tmp_path):
    program = plant_nsys(tmp_path / "target-linux-x64" / "nsys")
    host = tmp_path / "host-linux-x64"
    host.mkdir()
    library, source = tmp_path / "libgone.so", tmp_path / "a.c"
    source.write_text("int gone(void) { return 0; } int main(void) { return gone(); }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    source.write_text("int gone(void); int main(void) { return gone(); }")
    subprocess.run(["cc", "-o", host / "QdstrmImporter", source, library], check=True)
    library.unlink()

    (problem,) = inspect(program, (2025, 3)).problems

    assert "libgone.so" in problem
    assert "install the packages" in problem


def test_the_installed_nsys_is_found_whole(installation):
    """Of the real one the version is that of `nsys --version`, and the importer is a program."""
    told = subprocess.run([installation.path, "--version"], capture_output=True, text=True, check=True).stdout

    assert installation.version_text in told
    assert installation.problems == ()
    assert installation.importer is None or os.access(installation.importer, os.X_OK)


@pytest.mark.parametrize(("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)])
def test_an_nsys_that_is_missing_skips_tests_unless_it_is_required(required, outcome, monkeypatch):
    """CI sets PYTEST_NSIGHT_REQUIRE_NSYS=1, so that a broken image is not taken for a passed test."""
    monkeypatch.setenv(CHOICE, "/no/nsys")
    monkeypatch.setenv("PYTEST_NSIGHT_REQUIRE_NSYS", required)

    with pytest.raises(outcome, match="The chosen nsys, /no/nsys"):
        require_nsys()
