"""What never ends: a test, its set-up, a process that it leaves, nsys, git, a build. Each is ended, alone."""

from __future__ import annotations

from tests.collectors.real import ROOT
from tests.faults.fault import SOUND, WITH_NSYS, Fault
from tests.faults.steps import REPOSITORY, write

FAKE_NSYS = (ROOT / "tests/fakes/nsys").read_text()

DEAF = "[signal.signal(number, signal.SIG_IGN) for number in (2, 6, 15)]"


def _hang(name: str, body: str, *, is_fast: bool = False) -> Fault:
    """A test that takes longer than its mark allows, between two sound ones."""
    return Fault(
        name=f"a test that never ends {name}",
        test=f"{SOUND}\n@pytest.mark.nsight(timeout='2s')\ndef test_hangs(nsight):\n    {body}\n",
        code=1,
        says=(
            "test_hangs took longer than 2.00 s and was ended",
            'give it more time with @pytest.mark.nsight(timeout="...")',
        ),
        never=("test_sound[0] took", "FAILED test_case.py::test_sound"),
        is_fast=is_fast,
    )


def _fixture(name: str, fixture: str) -> Fault:
    return Fault(
        name=f"a fixture that never ends {name}",
        test=f"{SOUND}\n@pytest.fixture\ndef slow():\n{fixture}\n"
        "@pytest.mark.nsight(timeout='2s')\ndef test_hangs(nsight, slow):\n    nsight(work)\n",
        code=1,
        says=("test_hangs took longer than 2.00 s and was ended",),
        never=("FAILED test_case.py::test_sound",),
    )


def _at_end(name: str, imports: str, what: str) -> Fault:
    """The worker has measured all and does not end."""
    hook = f"def pytest_sessionfinish():\n    if IS_WORKER: {what}\n"
    return Fault(
        name=f"a worker that does not end {name}",
        files={
            "pytest.ini": "[pytest]\nnsight_timeout = 10s\n",
            "conftest.py": f"{imports}from test_case import IS_WORKER\n{hook}",
        },
        code=0,
        says=("2 passed",),
    )


def _fake_nsys(name: str, mode: str, *says: str, code: int = 4) -> Fault:
    """A session under an nsys that does what NSYS_FAKE says, with limits of a second."""
    return Fault(
        name=f"an nsys {name}",
        command=WITH_NSYS,
        files={"short_limits.py": SHORT_LIMITS, "nsys": FAKE_NSYS},
        prepare=(lambda folder: (folder / "nsys").chmod(0o755),),
        options=("-p", "short_limits"),
        environ={"PYTEST_NSIGHT_NSYS": "{folder}/nsys", "NSYS_FAKE": mode},
        code=code,
        says=says,
    )


# Loaded as a plugin: an nsys may take minutes to start and to write its report, and no test waits for that.
SHORT_LIMITS = """
import functools, os
from pytest_nsight.collectors.nsys import export, find, nsys_collector, private_folder, profiling
match os.environ["NSYS_FAKE"]:
    case "version-never-ends": find.ANSWER_S = 2.0
    case "never-starts": profiling.START_LIMIT_S = 3.0
    case "never-ends": profiling.END_LIMIT_S = 8.0
    case "export-never-ends": nsys_collector.export = functools.partial(export.export, limit_s=2.0)
private_folder._VISIBLE = (*private_folder._VISIBLE, "NSYS_FAKE")
"""

HANGS_IN_WORKER = "if IS_WORKER:\n    time.sleep(600)\n"

FAULTS = (
    _hang("in Python", "time.sleep(600)", is_fast=True),
    _hang("in C, deaf to signals", f"{DEAF}; ctypes.CDLL(None).sleep(600)"),
    _hang("in C, with the GIL", "ctypes.PyDLL(None).sleep(600)"),
    _hang(
        "in a loop that swallows every exception",
        "while True:\n        try:\n            time.sleep(600)\n        except BaseException: pass",
    ),
    _hang("in its child", "subprocess.run(['sleep', '600'])"),
    _hang("because it stops itself", "os.kill(os.getpid(), signal.SIGSTOP)"),
    _hang("in a measured round", "nsight(time.sleep, 600)"),
    _hang("for a lock that it holds itself", "lock = threading.Lock(); lock.acquire(); lock.acquire()"),
    _fixture("in its set-up", "    time.sleep(600)\n    yield"),
    _fixture("in its teardown", "    yield\n    time.sleep(600)"),
    Fault(
        name="a module that never ends to import in the worker",
        test=HANGS_IN_WORKER + SOUND,
        files={"pytest.ini": "[pytest]\nnsight_timeout = 15s\n"},
        code=1,
        says=(
            "the worker process began no test within 15.0 s and was ended",
            "set nsight_timeout if its imports take so long",
        ),
    ),
    _at_end(
        "because of a thread",
        "import threading, time\n",
        "threading.Thread(target=time.sleep, args=(600,)).start()",
    ),
    _at_end("because of atexit", "import atexit, time\n", "atexit.register(time.sleep, 600)"),
    _at_end("because of a hook", "import time\n", "time.sleep(600)"),
    Fault(
        name="a test leaves a process that never ends",
        test=SOUND + "    for own in (False, True): subprocess.Popen(['sleep', '600'], start_new_session=own)\n",
        code=0,
        says=("2 passed",),
        is_fast=True,
    ),
    Fault(
        name="a test reads from the keyboard",
        test=SOUND + "    assert sys.__stdin__.readline() == ''\n",
        options=("-s",),
        code=0,
        says=("2 passed",),
    ),
    *(
        Fault(
            name=f"a mark asks for {argument}",
            test=f"@pytest.mark.nsight({argument})\ndef test_it(nsight):\n    nsight(work)\n",
            code=4,
            says=("ERROR: ", "test_it", sentence),
            never=("passed",),
            is_fast=argument.startswith("r"),
        )
        for argument, sentence in (
            ('rest="1e8s"', "give a duration with its unit"),
            ('rest="100000000s"', "give a pause of at most a minute"),
            ('rest="inf s"', "give a duration with its unit"),
            ('max_time="1e999s"', "give a duration with its unit"),
            ('max_time=float("inf")', "give a duration with its unit"),
            ('band=float("nan")', "give a percentage"),
            ("rounds=10**30", "rounds"),
        )
    ),
    Fault(
        name="a build of the revision that never ends",
        prepare=REPOSITORY,
        options=("--nsight-against=HEAD", "--nsight-against-build=sleep 600 & sleep 600", "--nsight-timeout=2s"),
        code=4,
        says=(
            "nsight_against_build (sleep 600 & sleep 600) took longer than 2.00 s",
            "set nsight_timeout if it needs more",
        ),
        leaves=("project/.nsight/2*/against-build.log",),
        needs=("git",),
    ),
    Fault(
        name="a git that never answers",
        prepare=(
            *REPOSITORY,
            write("bin/git", "#!/bin/sh\nsleep 600\n"),
            lambda folder: (folder / "bin/git").chmod(0o755),
        ),
        files={"short_git.py": "from pytest_nsight.processes import git_calls\ngit_calls.ANSWER_S = 2.0\n"},
        options=("--nsight-against=HEAD", "-p", "short_git"),
        environ={"PATH": "{folder}/bin:/usr/bin:/bin"},
        code=4,
        says=("ERROR: git rev-parse --show-toplevel did not answer within 2 s in ", "find out what it waits for"),
        needs=("git",),
    ),
    _fake_nsys(
        "whose --version never ends",
        "version-never-ends",
        "does not answer to --version within 2 s; reinstall it or take it off",
    ),
    _fake_nsys(
        "that never starts the worker", "never-starts", "Nsight Systems did not start the worker within 3 s"
    ),
    _fake_nsys(
        "that never ends after the worker", "never-ends", "Nsight Systems did not end after the worker within 8 s"
    ),
    _fake_nsys(
        "whose export never ends", "export-never-ends", "did not export ", "within 2 s and was ended; measure again"
    ),
    _fake_nsys(
        "that cannot start anything",
        "unusable",
        "Agent launcher failed",
        "it cannot work in its folder; choose a folder with --rootdir",
    ),
    _fake_nsys("without its importer", "no-importer", "importer"),
    _fake_nsys("whose import fails", "importer-fails", "Importation failed"),
    _fake_nsys("whose disk is full", "disk-full", "the disk is full at "),
    _fake_nsys("that writes no report", "nothing", "report"),
    _fake_nsys("whose report goes elsewhere", "elsewhere"),
    _fake_nsys("whose export fails", "export-fails", "Section Table Reference magic number mismatch"),
    _fake_nsys("whose export is no database", "export-zeroes"),
    _fake_nsys("that says no version", "mute"),
)
