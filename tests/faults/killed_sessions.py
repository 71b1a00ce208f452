"""Sessions that are interrupted or killed, and what they leave; a later one removes what a killed one cannot."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from tests.faults.fault import COMMAND, SESSION, SOUND, WITH_NSYS, Fault, Step
from tests.faults.hangs import FAKE_NSYS
from tests.faults.steps import REPOSITORY, begun, runs, send

SLOW = "@pytest.mark.nsight\ndef test_slow(nsight):\n    begin()\n    nsight(time.sleep, 600)\n"
# The second session must find nothing to wait for.
SLOW_ONCE = SLOW.replace("    begin()", "    if os.path.exists(BEGUN): return nsight(work)\n    begin()")
SLOW_WITH_GIL = SLOW_ONCE.replace("nsight(time.sleep, 600)", "ctypes.PyDLL(None).sleep(600)")

OF_KILLED = ("project/.nsight/2*/run-*/clock.jsonl", "project/.nsight/2*/run-*/parent.pipe")
"""What a killed session leaves for good beside its manifests; none of it holds a secret."""


def _ended(name: str, *steps: Step, code: int, **more: object) -> Fault:
    """A session that ends in the middle of a test, and one more session."""
    command = more.pop("command", SESSION)
    return Fault(
        name=f"a session that is {name}",
        test=more.pop("test", SLOW_ONCE),
        command=command,
        meanwhile=(begun, *steps),
        afterwards=more.pop("afterwards", command),
        code=code,
        leaves=more.pop("leaves", OF_KILLED if code < 0 else ()),
        **more,
    )


# The fake reads a variable that the real nsys must not see.
SHOWN = """
from pytest_nsight.collectors.nsys import private_folder
private_folder._VISIBLE = (*private_folder._VISIBLE, "NSYS_FAKE")
"""

INTERRUPT, TERMINATE, KILL, HANG_UP = signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP
WORKTREE = (*SESSION, "--nsight-against=HEAD")
CALIBRATE = (
    *COMMAND,
    "calibrate",
    "--runs=2",
    "--nsight-collector=clock",
    "--nsight-rounds=3",
    "-p",
    "pytest_nsight.plugin",
)
SHOW = (*COMMAND, "show", "r.nsys-rep")
HANGING_EXPORT = {"r.nsys-rep": b"report", "nsys": FAKE_NSYS}
FAKE_ENVIRONMENT = {"PYTEST_NSIGHT_NSYS": "{folder}/nsys", "NSYS_FAKE": "export-never-ends"}

IN_EXPORT: Mapping[str, Any] = {
    "files": {"nsys": FAKE_NSYS, "shown.py": SHOWN},
    "prepare": (lambda folder: (folder / "nsys").chmod(0o755),),
    "options": ("-p", "shown"),
    "environ": FAKE_ENVIRONMENT,
}


def _show(name: str, number: signal.Signals, code: int) -> Fault:
    return Fault(
        name=f"show of a report that is {name} while nsys exports it",
        command=SHOW,
        files=HANGING_EXPORT,
        prepare=(lambda folder: (folder / "nsys").chmod(0o755),),
        environ=FAKE_ENVIRONMENT,
        meanwhile=(runs("export"), send(number)),
        code=code,
        # What a killed command leaves goes with the next one.
        afterwards=() if number != KILL else (*COMMAND, "show", "nothing"),
        leaves=() if number != KILL else ("temporary/pytest-nsight-*",),
    )


FAULTS = (
    _ended("interrupted", send(INTERRUPT), code=2, is_fast=True),
    _ended("interrupted twice", send(INTERRUPT), send(INTERRUPT), code=2),
    _ended("terminated", send(TERMINATE), code=2),
    _ended("hung up", send(HANG_UP), code=2),
    _ended("killed", send(KILL), code=-9),
    _ended(
        "killed while its worker is in C with the GIL",
        send(KILL),
        code=-9,
        test=SLOW_WITH_GIL,
    ),
    _ended("killed while its worker is stopped", send(signal.SIGSTOP, "worker"), send(KILL), code=-9),
    _ended("killed under nsys", send(KILL), code=-9, command=WITH_NSYS, needs=("nsys",)),
    _ended("killed with its nsys", send(KILL, "nsys"), send(KILL), code=-9, command=WITH_NSYS, needs=("nsys",)),
    _ended("interrupted under nsys", send(INTERRUPT), code=2, command=WITH_NSYS, needs=("nsys",)),
    _ended(
        "interrupted twice under nsys", send(INTERRUPT), send(INTERRUPT), code=2, command=WITH_NSYS, needs=("nsys",)
    ),
    _ended("terminated under nsys", send(TERMINATE), code=2, command=WITH_NSYS, needs=("nsys",)),
    _ended(
        "killed while it compares with a revision",
        send(KILL),
        code=-9,
        command=WORKTREE,
        prepare=REPOSITORY,
        needs=("git",),
    ),
    _ended(
        "interrupted twice while it compares with a revision",
        send(INTERRUPT),
        send(INTERRUPT),
        code=2,
        command=WORKTREE,
        prepare=REPOSITORY,
        needs=("git",),
    ),
    Fault(
        name="nsys is killed in its export",
        command=WITH_NSYS,
        **{**IN_EXPORT, "environ": {**FAKE_ENVIRONMENT, "NSYS_FAKE": "export-hangs-once"}},
        meanwhile=(send(KILL, "export"),),
        # The tests are measured again, and what this nsys exports then is no database.
        code=4,
        says=("run-002/nsys/export.sqlite is truncated",),
    ),
    Fault(
        name="a session that is killed while nsys exports",
        command=WITH_NSYS,
        **IN_EXPORT,
        meanwhile=(runs("export"), send(KILL)),
        afterwards=SESSION,
        code=-9,
        leaves=OF_KILLED,
    ),
    Fault(
        name="a session that is killed while the revision is built",
        command=(*WORKTREE, "--nsight-against-build=sleep 600"),
        prepare=REPOSITORY,
        meanwhile=(runs("sleep"), send(KILL)),
        afterwards=SESSION,
        code=-9,
        leaves=(*OF_KILLED, "project/.nsight/2*/against-build.log"),
        needs=("git",),
    ),
    Fault(
        name="the agent of nsys is killed",
        command=WITH_NSYS,
        test=SOUND + "    begin(); time.sleep(3)\n",
        meanwhile=(begun, send(KILL, "agent")),
        code=1,
        needs=("nsys",),
    ),
    Fault(
        name="calibrate is interrupted",
        test=SLOW,
        command=CALIBRATE,
        meanwhile=(begun, send(INTERRUPT)),
        code=130,
        leaves=("project/.nsight/pool*",),
    ),
    Fault(
        name="calibrate is terminated",
        test=SLOW,
        command=CALIBRATE,
        meanwhile=(begun, send(TERMINATE)),
        code=143,
        leaves=("project/.nsight/pool*",),
    ),
    Fault(
        name="calibrate is killed",
        test=SLOW_ONCE,
        command=CALIBRATE,
        meanwhile=(begun, send(KILL)),
        afterwards=SESSION,
        code=-9,
        leaves=("project/.nsight/pool*", *OF_KILLED),
    ),
    _show("interrupted", INTERRUPT, 130),
    _show("terminated", TERMINATE, 143),
    _show("killed", KILL, -9),
)
