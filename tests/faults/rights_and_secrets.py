"""The folders that secrets pass through, and who may read and write them."""

from __future__ import annotations

from tests.faults.fault import COMMAND, SOUND, WITH_NSYS, Fault
from tests.faults.steps import small_disk

FULL = small_disk("{root}/temporary", is_full=True)
FILLING = ("temporary/filling",)
KEPT = ("project/.nsight/2*/run-*/trace.sqlite", "project/.nsight/2*/evidence.json")
"""A recording without secrets, and the hashes of the files that it was measured from."""

UMASK = SOUND + "    now = os.umask(0o022); os.umask(now); assert now == 0o022, oct(now)\n"

FAULTS = (
    Fault(
        name="a full TMPDIR",
        prepare=(FULL,),
        options=("-s",),
        code=0,
        says=("2 passed",),
        needs=("mount",),
        is_fast=True,
    ),
    Fault(
        name="a full TMPDIR under nsys",
        command=(*WITH_NSYS, "--nsight-keep"),
        prepare=(FULL,),
        # pytest's own captured output goes to TMPDIR, too.
        options=("-s",),
        code=1,
        says=("no GPU kernel ran",),
        never=("missing from the trace",),
        leaves=KEPT,
        needs=("nsys", "mount"),
    ),
    Fault(
        name="a TMPDIR that does not exist under nsys",
        command=WITH_NSYS,
        environ={"TMPDIR": "/nowhere/at/all"},
        options=("-s",),
        code=1,
        says=("no GPU kernel ran",),
        needs=("nsys",),
    ),
    Fault(
        name="the umask of a worker under nsys",
        test=UMASK + "    open('made', 'w').close(); os.makedirs('folder/deep', exist_ok=True)\n",
        command=WITH_NSYS,
        code=1,
        says=("no GPU kernel ran",),
        never=("AssertionError",),
        leaves=("project/made", "project/folder*"),
        needs=("nsys",),
    ),
    Fault(
        name="a kept trace under nsys",
        command=(*WITH_NSYS, "--nsight-keep", "--nsight-user-ranges"),
        code=1,
        says=("no GPU kernel ran",),
        leaves=KEPT,
        needs=("nsys",),
    ),
    Fault(
        name="a child of a test under nsys",
        test=SOUND + "    subprocess.run(['sh', '-c', 'test -n \"$MY_SETTING\"'], check=True)\n",
        command=(*WITH_NSYS, "--nsight-keep"),
        code=1,
        says=("no GPU kernel ran",),
        never=("CalledProcessError",),
        leaves=KEPT,
        needs=("nsys",),
    ),
    Fault(
        name="doctor with a full TMPDIR",
        command=(*COMMAND, "doctor"),
        prepare=(FULL,),
        code=1,
        says=("nsys",),
        needs=("mount", "nsys"),
    ),
)
