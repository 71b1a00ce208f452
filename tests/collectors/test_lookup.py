"""Collectors by name: the package's own, those of installed packages, and what is wrong with a bad one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_nsight.collectors import lookup
from pytest_nsight.collectors.base import RecordingOptions
from pytest_nsight.collectors.lookup import choose, collector_names, find_factory, read_kept_trace
from pytest_nsight.model.errors import CollectorError, NsysError, RecordingError
from pytest_nsight.recorders.cupti.library import CuptiError

GOOD = """
class Factory:
    class Collector:
        name = "{name}"
    def make_collector(self, options): return self.Collector()
    def make_recorder(self, folder): return None
    def read_kept(self, folder): return None
FACTORY = Factory()
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package with an entry point on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(module: str, code: str, *names: str) -> None:
        (tmp_path / f"{module}.py").write_text(code)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = "".join(f"{name} = {module}:FACTORY\n" for name in names)
        (info / "entry_points.txt").write_text(f"[pytest_nsight.collectors]\n{lines}")

    return install


def test_the_packages_own_collectors_can_be_loaded():
    assert {"auto", "nsys", "cupti", "torch"} <= set(collector_names())
    assert find_factory("nsys")
    assert find_factory("cupti")
    assert find_factory("torch")


class Made:
    """A collector whose name alone matters."""

    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("working", "chosen", "note"),
    [
        (("nsys", "cupti", "torch"), "nsys", ()),
        (("cupti", "torch"), "cupti", ("CUPTI in the measuring process instead of Nsight Systems: no nsys",)),
        (("torch",), "torch", ("torch.profiler instead of Nsight Systems and of CUPTI: no nsys; no cupti",)),
    ],
)
def test_auto_takes_nsys_then_cupti_then_torch(working, chosen, note, monkeypatch):
    def make(name, options):
        if name not in working:
            raise {"nsys": NsysError, "cupti": CuptiError}[name](f"no {name}")
        return Made(name)

    monkeypatch.setattr(lookup, "gpu_names", lambda: ("NVIDIA H200",))
    monkeypatch.setattr(lookup, "_make", make)

    collector, notes = choose("auto", RecordingOptions(), strict=False)

    assert (collector.name, notes) == (chosen, note)
    if note:
        with pytest.raises(CollectorError, match=r"refuses a fallback collector: CUPTI in .*: no nsys"):
            choose("auto", RecordingOptions(), strict=True)


def test_an_installed_collector_is_chosen_by_its_name(install):
    install("good_collector", GOOD.format(name="good"), "good")

    collector, notes = choose("good", RecordingOptions(), strict=True)

    assert "good" in collector_names()
    assert (collector.name, notes) == ("good", ())


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import no_such_module_anywhere", ["cannot be loaded", "ModuleNotFoundError", "update or uninstall"]),
        ("FACTORY = object()", ["has no make_collector and no make_recorder and no read_kept"]),
        ("OTHER = 1", ["cannot be loaded", "AttributeError"]),
        (GOOD.format(name="another"), ["calls itself 'another'"]),
    ],
)
def test_a_bad_collector_is_named_with_what_is_wrong(code, words, install):
    install("bad_collector", code, "bad")
    sys.modules.pop("bad_collector", None)

    with pytest.raises(CollectorError) as caught:
        choose("bad", RecordingOptions(), strict=False)

    assert [word for word in ("'bad'", *words) if word not in str(caught.value)] == []


@pytest.mark.parametrize("name", ["nsys", "twice"])
def test_a_name_that_two_packages_take_is_refused(name, install):
    install("one_collector", GOOD.format(name=name), name)
    install("two_collector", GOOD.format(name=name), name)

    with pytest.raises(CollectorError, match=rf"several collectors are called '{name}' .*uninstall one"):
        find_factory(name)


def test_an_unknown_collector_is_refused_with_all_that_there_are():
    with pytest.raises(CollectorError, match=r"no collector 'xyz'; choose one of auto, nsys, cupti, torch"):
        find_factory("xyz")


def test_a_folder_without_a_trace_says_how_to_record_one(tmp_path):
    with pytest.raises(RecordingError, match=r"holds no trace; record the session with --nsight-keep"):
        read_kept_trace(tmp_path)


@pytest.mark.slow
def test_looking_a_recorder_up_imports_neither_pandas_nor_the_reader_of_the_other_collector(tmp_path):
    """A worker needs one recorder, and every millisecond of its start is waited for."""
    code = (
        "import sys\n"
        "from pytest_nsight.collectors.lookup import find_factory\n"
        "find_factory('torch')\n"
        "print([name for name in ('pandas', 'sqlite3', 'torch') if name in sys.modules])"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "[]"
