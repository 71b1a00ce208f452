"""Baselines, pools and the folders that hold them: damaged, hostile, no files at all, or held by another."""

from __future__ import annotations

import gzip
import json
import signal

from tests.faults.fault import COMMAND, JUDGED, SOUND, Fault
from tests.faults.steps import begun, damage, folder_at, link, pipe, send, small_disk, sparse, store_runs, write

FILE = "baselines/MODEL/test_case.json"
CLOCK = (*JUDGED, "--nsight-collector=clock")
USAGE = 4


def _replace(old: str, new: str):
    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new)

    return damage(change)


def _pool(text: str) -> bytes:
    head = {"pool": 1, "policies": {}, "seconds": {}}
    return gzip.compress(f"{json.dumps(head)}\n{text}".encode("utf-8", "surrogatepass"))


def _read_pool(name: str, content: object, *says: str, **more: object) -> Fault:
    return Fault(
        name=name,
        command=(*COMMAND, "calibrate", "--from", "pool.json.gz"),
        prepare=(content,) if callable(content) else (),
        code=2,
        says=("pytest-nsight: ", "pool.json.gz", *says),
        **more,
    )


FAST_BASELINES = (
    "is a pipe",
    "is a link to /dev/zero",
    "is nested a million deep",
    "has a million rounds in one line",
    "has a lone surrogate",
    "has text for a clock",
)


def _baseline(name: str, prepare: object, *says: str) -> Fault:
    """A session that meets a baseline file which it must refuse."""
    return Fault(
        name=f"a baseline {name}",
        command=CLOCK,
        prepare=(prepare,),
        code=USAGE,
        says=("ERROR: ", *says),
        never=("passed", "NO_BASELINE"),
        is_fast=name in FAST_BASELINES,
    )


HOLDER = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""

# Loaded as a plugin: nobody waits five minutes in a test.
SHORT_LOCK = """
from pytest_nsight.baselines import folder_lock
folder_lock.locked.__wrapped__.__defaults__ = (1.0,)
"""

HELD = """
import fcntl, os, pathlib
place = next(pathlib.Path("baselines").iterdir()) / ".lock"
held = os.open(place, os.O_RDWR | os.O_CREAT)
fcntl.flock(held, fcntl.LOCK_EX)
"""

FAULTS = (
    _baseline("is a pipe", pipe(FILE), "is a pipe, not a file; put the file there"),
    _baseline("is a link to /dev/zero", link(FILE, "/dev/zero"), "is a device, not a file"),
    _baseline("is a folder", folder_at(FILE), "is a directory"),
    _baseline("is a link to nothing", link(FILE, "gone"), "is a link to gone, which leads to nothing"),
    _baseline("is a link to itself", link(FILE, "test_case.json"), "leads to nothing"),
    _baseline("is too large to be read", sparse(FILE, 200 * 2**20), "is the most that is read"),
    _baseline("is empty", write(FILE, ""), "is invalid JSON"),
    _baseline("is not UTF-8", write(FILE, b"\xff\xfe{}"), "test_case.json"),
    _baseline("is cut short", damage(lambda text: text[:300]), "is invalid JSON"),
    _baseline("is nested a million deep", write(FILE, "[" * 1_000_000), "test_case.json"),
    _baseline("has a number of a million digits", _replace('"format": 2', '"format": ' + "9" * 1_000_000)),
    _baseline("has a million rounds in one line", _replace('"5x0"', '"1000000000x0"'), "test_case.json"),
    _baseline("has packed rounds without an end", _replace('"5x0"', '"5x24518+2k8:"'), "test_case.json"),
    _baseline("has launch counts beyond all numbers", _replace('",1]]', '",' + "9" * 40 + "]]"), "test_case.json"),
    _baseline("has text for a clock", _replace("[1980,212.5,41,0.0]", '["fast",[],{},null]'), "test_case.json"),
    _baseline("has an infinite power", _replace("212.5", "1e999"), "test_case.json"),
    _baseline("has a lone surrogate", _replace('"run-1"', '"\\ud800"'), "test_case.json"),
    _baseline("of a newer format", _replace('"format": 2', '"format": 99'), "upgrade"),
    _baseline("names a shape that it lacks", _replace('"shapes": {', '"shapes": {}, "x": {'), "test_case.json"),
    Fault(
        name="the baselines folder is a link to nothing",
        command=CLOCK,
        prepare=(link("baselines", "gone"),),
        code=USAGE,
        says=("ERROR: ", "is a link to gone, which leads to nothing; mend or remove the link"),
        is_fast=True,
    ),
    Fault(
        name="the baselines folder is a link to itself",
        command=CLOCK,
        prepare=(link("baselines", "baselines"),),
        code=USAGE,
        says=("is a link to baselines, which leads to nothing",),
    ),
    Fault(
        name="the baselines folder is a file",
        command=CLOCK,
        options=("--nsight-save",),
        prepare=(write("baselines", "in the way"),),
        code=USAGE,
        says=("ERROR: ", "baselines"),
        never=("  SAVED",),
    ),
    Fault(
        name="another process holds the baselines' lock",
        command=CLOCK,
        options=("--nsight-save", "--nsight-runs=1", "-p", "short_lock"),
        files={
            "short_lock.py": SHORT_LOCK,
            "conftest.py": "import test_case\nif not test_case.IS_WORKER:" + HELD.replace("\n", "\n    "),
        },
        prepare=(store_runs,),
        code=USAGE,
        says=(
            "ERROR: ",
            ".lock is locked by another process",
            "wait until that process ends, or end it, then save again",
        ),
        never=("  SAVED",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl", "project/baselines/*/.lock"),
    ),
    Fault(
        name="the disk of the baselines is full when they are saved",
        command=CLOCK,
        options=("--nsight-save", "--nsight-runs=1"),
        prepare=(small_disk("baselines", is_full=True),),
        code=USAGE,
        says=("ERROR: ", "no space left on device", "--nsight-replay", "NOT_SAVED"),
        never=("  SAVED",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl", "project/baselines*"),
        needs=("mount",),
    ),
    Fault(
        name="the baselines folder goes away while a save measures",
        test="import shutil\n"
        + SOUND
        + "    shutil.rmtree('baselines', ignore_errors=True)\n    open('baselines', 'w').close()\n",
        options=("--nsight-save", "--nsight-runs=1"),
        code=USAGE,
        says=("ERROR: ", "baselines", "--nsight-replay"),
        never=("  SAVED",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl", "project/baselines*"),
    ),
    Fault(
        name="Ctrl-C while a save measures",
        test=SOUND + "    begin()\n    time.sleep(600)\n",
        prepare=(store_runs,),
        options=("--nsight-save", "--nsight-runs=1"),
        meanwhile=(begun, send(signal.SIGINT)),
        code=2,
        says=("not finished: no baseline was changed",),
        never=("  SAVED",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl",),
    ),
    Fault(
        name="Ctrl-C while the baselines of several modules are written",
        files={f"test_{name}.py": "from test_case import *\n" for name in ("more", "other")}
        | {
            "conftest.py": """
import test_case
if not test_case.IS_WORKER:
    from pytest_nsight.baselines import store
    save_file, saved = store.save_file, []
    def interrupted(path, *rest):
        save_file(path, *rest)
        saved.append(path)
        if len(saved) == 2:
            raise KeyboardInterrupt
    store.save_file = interrupted
"""
        },
        options=("--nsight-save", "--nsight-runs=1"),
        code=2,
        says=("not finished: of the baselines only ", "NOT_SAVED"),
        never=("no baseline was changed",),
        leaves=("project/.nsight/2*/run-*/clock.jsonl", "project/baselines*"),
    ),
    _read_pool(
        "a pool that unpacks without an end",
        write("pool.json.gz", lambda: gzip.compress(bytes(600 << 20), 1)),
    ),
    _read_pool(
        "a pool with infinite times",
        write("pool.json.gz", lambda: gzip.compress(b'{"pool":1,"policies":{},"seconds":{"a":1e999}}\n{}')),
    ),
    _read_pool("a pool nested a million deep", write("pool.json.gz", lambda: _pool("[" * 1_000_000))),
    _read_pool("a pool with surrogates", write("pool.json.gz", lambda: _pool('{"format": 2, "x": "\ud800"}'))),
    _read_pool("a pool that is a pipe", pipe("pool.json.gz"), "is a pipe"),
    _read_pool("a pool that is no archive", write("pool.json.gz", b"\x1f\x8bno")),
)
