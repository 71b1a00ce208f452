"""Processes that end before their time, and tests that break what they run in: each costs its own case."""

from __future__ import annotations

import signal

from tests.faults.fault import SESSION, SOUND, WITH_NSYS, WITH_TORCH, Fault, among_sound
from tests.faults.steps import begun, send, small_disk


def _dies(name: str, body: str, *says: str, is_fast: bool = False, **more: object) -> Fault:
    """A test that ends its process, among twenty sound ones."""
    return Fault(
        name=f"a test {name}",
        test=among_sound(f"@pytest.mark.nsight\ndef test_bad(nsight):\n    nsight(work)\n    {body}"),
        code=1,
        says=("1 failed, 20 passed", "FAILED test_case.py::test_bad", *says),
        is_fast=is_fast,
        **more,
    )


def _spoils(name: str, body: str, *says: str, code: int = 0, test: str = SOUND, **more: object) -> Fault:
    """A test that breaks what it runs in, and passes."""
    return Fault(
        name=f"a test {name}",
        test=f"@pytest.mark.nsight\ndef test_bad(nsight):\n    nsight(work)\n    {body}\n{test}",
        code=code,
        says=says or ("3 passed",),
        **more,
    )


# Enough that some stand behind the bad one in most orders.
SIX_SOUND = SOUND.replace("range(2)", "range(6)")

REMOVES = (
    SOUND
    + """
@pytest.mark.nsight
def test_bad(nsight):
    import pathlib, shutil
    nsight(work)
    for path in pathlib.Path(".nsight").glob("2*/run-*/manifest.jsonl"):
        {}
"""
)

NO_FILES = """import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    open("x", "w").write("x")
"""

IN_WORKER = "from test_case import IS_WORKER\n"

FAULTS = (
    _dies(
        "that dies of SIGSEGV",
        "ctypes.string_at(0)",
        "died with SIGSEGV while test_case.py::test_bad ran",
        is_fast=True,
    ),
    _dies(
        "that is killed",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "died with SIGKILL while test_case.py::test_bad ran",
    ),
    _dies("that aborts", "os.abort()", "died with SIGABRT"),
    _dies("that exits", "os._exit(0)", "ended with exit code 0 before its time while test_case.py::test_bad ran"),
    _dies("that exits with pytest's code of success", "os._exit(1)", "before its time"),
    _dies("that raises SystemExit", "raise SystemExit(3)"),
    _dies("that raises KeyboardInterrupt", "raise KeyboardInterrupt", "KeyboardInterrupt", is_fast=True),
    _dies("that asks pytest to exit", "pytest.exit('enough')", "enough (with --nsight it ends this test only)"),
    _dies(
        "that runs out of memory",
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20)); bytearray(2**30)",
        "MemoryError",
    ),
    _dies(
        "that reads where nothing is",
        "sys.setrecursionlimit(10**9); ctypes.string_at(1)",
    ),
    _dies(
        "that may write no file any more",
        NO_FILES,
        leaves=("project/x",),
    ),
    _dies(
        "that leaves torch.profiler open",
        "import torch; torch.profiler.profile().__enter__(); work(); raise RuntimeError('it is left open')",
        "it is left open",
        "test_case.py::test_bad (running torch.profiler)",
        command=WITH_TORCH,
    ),
    _dies("that interrupts its process", "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)", "KeyboardInterrupt"),
    _dies(
        "that terminates its process", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)", "died with SIGTERM"
    ),
    _spoils("that forks, and the child exits with an exception", "if not os.fork(): raise SystemExit(0)"),
    _spoils("that forks, and the child goes on as pytest", "os.fork()"),
    _spoils("that forks, and the child raises", "assert os.fork(), 'in the child'"),
    _spoils(
        "that removes its folder",
        "import shutil; os.makedirs('gone', exist_ok=True); os.chdir('gone'); os.rmdir('../gone')",
    ),
    _spoils("that empties its environment", "os.environ.clear()"),
    _spoils(
        "that spoils those behind it, and pytest itself",
        "from _pytest import terminal; globals()['work'] = None; terminal.TerminalReporter.summary_stats = None",
        "7 passed",
        test=SIX_SOUND,
    ),
    _spoils(
        "that replaces what JSON is written and read with",
        "import json; json.dump = json.loads = json.dumps = lambda *given, **named: {}",
        "7 passed",
        test=SIX_SOUND,
        command=WITH_TORCH,
    ),
    _spoils(
        "that lets no file be opened any more",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))",
        "7 passed",
        test=SIX_SOUND,
        command=WITH_TORCH,
    ),
    _spoils("that replaces time", "time.monotonic = time.perf_counter_ns = time.time = lambda: 0"),
    Fault(
        name="a test removes its worker's folder",
        test=REMOVES.format("shutil.rmtree(path.parent)"),
        code=4,
        says=("manifest.jsonl was there and is gone: a test, or another process, removed it while the worker ran",),
    ),
    Fault(
        name="a test removes its worker's journal",
        test=REMOVES.format("path.unlink()"),
        code=4,
        says=("manifest.jsonl was there and is gone: a test, or another process, removed it while the worker ran",),
    ),
    Fault(
        name="a test closes all files",
        test=SOUND + "    os.closerange(3, 300)\n",
        code=1,
    ),
    Fault(
        name="a test fills the disk of the session",
        # Of two cases the other would meet the full disk, too, in one order and not in the other.
        test="@pytest.mark.nsight\ndef test_filling(nsight):\n    nsight(work)\n"
        "    open('.nsight/filling', 'wb').write(bytes(2**26))\n",
        prepare=(small_disk(".nsight", "32m"),),
        code=1,
        says=("No space left on device",),
        leaves=("project/.nsight/filling",),
        needs=("mount",),
    ),
    Fault(
        name="a test kills the session",
        test=SOUND
        + "    if not os.path.exists(BEGUN): begin(); os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)\n",
        code=-9,
        afterwards=SESSION,
        later=("2 passed",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl", "project/.nsight/2*/run-*/parent.pipe"),
    ),
    Fault(
        name="a worker cannot start",
        files={"conftest.py": IN_WORKER + "import os\nif IS_WORKER: os._exit(3)\n"},
        code=1,
        says=(
            "the worker process ended with exit code 3 before its time, before the first test; its output is in ",
        ),
    ),
    Fault(
        name="a module cannot be imported in the worker",
        test="assert not IS_WORKER, 'not here'\n" + SOUND,
        code=4,
        says=("pytest in the worker process was interrupted", "AssertionError: not here"),
    ),
    Fault(
        name="a hook fails in the worker",
        files={
            "conftest.py": IN_WORKER
            + "def pytest_runtest_setup(item):\n    assert not IS_WORKER, 'a broken hook'\n"
        },
        code=1,
        says=("a broken hook", "2 errors"),
    ),
    Fault(
        name="a process dies while it waits for its turn",
        command=WITH_NSYS,
        test=SOUND + "    begin(); time.sleep(3)\n",
        options=("--nsight-runs=2",),
        meanwhile=(begun, send(signal.SIGKILL, "run-002")),
        code=1,
        says=("no GPU kernel ran in the measured rounds",),
        never=("SIGKILL",),
        needs=("nsys",),
    ),
    Fault(
        name="the interpreter of the worker is gone",
        test=SOUND,
        files={"conftest.py": "import sys\nsys.executable = '/nowhere/python'\n"},
        code=4,
        says=("Cannot start /nowhere/python",),
        is_fast=True,
    ),
    Fault(
        name="the session's folder cannot be made",
        files={".nsight": "in the way"},
        code=4,
        says=("cannot be written (Not a directory)",),
        is_fast=True,
    ),
    Fault(
        name="the session's disk is full before it begins",
        prepare=(small_disk(".nsight"),),
        code=4,
        says=("has 0.1 MB free and a run may need 16 MB: make room there",),
        needs=("mount",),
        is_fast=True,
    ),
    Fault(
        name="a killed worker under nsys",
        command=WITH_NSYS,
        test=SOUND
        + "\n@pytest.mark.nsight\ndef test_bad(nsight):\n    nsight(work)\n    os.kill(os.getpid(), 9)\n"
        + SOUND.replace("sound", "later"),
        code=1,
        says=("died with SIGKILL while test_case.py::test_bad ran", "no GPU kernel ran in the measured rounds"),
        never=("missing from the trace",),
        needs=("nsys",),
    ),
    Fault(
        name="a killed nsys",
        command=WITH_NSYS,
        test="ENDED = os.path.exists(BEGUN)\n" + SOUND + "    begin(); time.sleep(0 if ENDED else 600)\n",
        meanwhile=(begun, send(signal.SIGKILL, "nsys")),
        code=1,
        says=("SIGKILL",),
        needs=("nsys",),
    ),
)
