"""Recorded sessions, exports and traces that others made: one sentence, and nothing from outside their folder."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.collectors.real import ROOT
from tests.faults.fault import COMMAND, JUDGED, Fault, Prepare
from tests.faults.steps import damage, link, pipe, sparse, store_runs, write

RUN = "recorded/run-001"
REPLAY = (*JUDGED, "--nsight-replay=recorded")
RECORDED = ROOT / "tests/data/sessions/unchanged/run-001"
CASE = "test_case.py::test_sound[0]"

HEAD = {
    "event": "run",
    "format": 1,
    "run": "s/001",
    "session": "s",
    "recorded": "",
    "commit": "",
    "pid": 7,
    "tree": "",
}


def _manifest(*events: Mapping[str, object], **head: object) -> str:
    return "\n".join(json.dumps(event) for event in ({**HEAD, **head}, *events)) + "\n"


FAST_REPLAYS = (
    "whose manifest is a pipe",
    "whose manifest has other types",
    "whose trace is a pipe",
    "whose trace is cut short",
    "whose plan leads out of its folder",
    "whose log is a link to a file outside",
)


def _replay(name: str, *prepare: Prepare, says: tuple[str, ...], code: int = 4, **more: object) -> Fault:
    return Fault(
        name=f"a replayed session {name}",
        command=REPLAY,
        prepare=prepare,
        says=says,
        code=code,
        is_fast=name in FAST_REPLAYS,
        **more,
    )


def _verify(name: str, *prepare: Prepare, says: tuple[str, ...]) -> Fault:
    command = (*COMMAND, "verify", "recorded")
    return Fault(name=f"verify of a session {name}", command=command, prepare=prepare, code=4, says=says)


def _show(name: str, *prepare: Prepare, file: str, says: tuple[str, ...] = (), is_fast: bool = True) -> Fault:
    return Fault(
        name=f"show of {name}",
        command=(*COMMAND, "show", file),
        prepare=prepare,
        code=2,
        says=("pytest-nsight: ", *says),
        is_fast=is_fast,
    )


def _recorded(folder: Path) -> None:
    """A sound recording, of other tests."""
    (folder / RUN).mkdir(parents=True)
    for path in RECORDED.iterdir():
        (folder / RUN / path.name).write_bytes(path.read_bytes())


def _changed(name: str, change: Callable[[bytes], bytes]) -> tuple[Prepare, Prepare]:
    def prepare(folder: Path) -> None:
        path = folder / RUN / name
        path.write_bytes(change(path.read_bytes()))

    return _recorded, prepare


def _remove(name: str) -> Prepare:
    return lambda folder: (folder / RUN / name).unlink()


TRACE = "trace.sqlite.xz"
ZEROS = bytes(64 << 20)

FAULTS = (
    _replay(
        "whose manifest is a pipe",
        pipe(f"{RUN}/manifest.jsonl"),
        says=("manifest.jsonl is not a regular file; remove ",),
    ),
    _replay("whose manifest is /dev/zero", link(f"{RUN}/manifest.jsonl", "/dev/zero"), says=("manifest.jsonl",)),
    _replay(
        "whose manifest is empty",
        write(f"{RUN}/manifest.jsonl", ""),
        says=("the recorded worker process of run-001 died",),
        code=1,
    ),
    _replay(
        "whose manifest has other types",
        write(f"{RUN}/manifest.jsonl", _manifest(pid="seven")),
        says=("manifest.jsonl", "pid"),
    ),
    _replay(
        "whose manifest is nested a million deep",
        write(f"{RUN}/manifest.jsonl", "[" * 1_000_000 + "\n"),
        says=("manifest.jsonl",),
    ),
    _replay(
        "whose manifest is of a newer format",
        write(f"{RUN}/manifest.jsonl", _manifest(format=99)),
        says=("upgrade",),
    ),
    _replay("whose manifest has no end", sparse(f"{RUN}/manifest.jsonl", 2**33), says=("manifest.jsonl",)),
    _replay(
        "whose trace is a pipe",
        *_changed("manifest.jsonl", bytes),
        _remove(TRACE),
        pipe(f"{RUN}/{TRACE}"),
        says=("is a pipe",),
    ),
    _replay(
        "whose trace is a link to /dev/zero",
        *_changed("manifest.jsonl", bytes),
        _remove(TRACE),
        link(f"{RUN}/{TRACE}", "/dev/zero"),
        says=(TRACE,),
    ),
    _replay(
        "whose trace unpacks to zeros",
        *_changed(TRACE, lambda _: lzma.compress(ZEROS, preset=0)),
        says=("cannot be replayed",),
    ),
    _replay("whose trace is cut short", *_changed(TRACE, lambda packed: packed[: len(packed) // 2]), says=(TRACE,)),
    _replay(
        "whose time limit is a pipe",
        _recorded,
        pipe(f"{RUN}/overdue.json"),
        says=("overdue.json is not a regular file",),
    ),
    _replay("without its trace", *_changed("manifest.jsonl", bytes), _remove(TRACE), says=("cannot be replayed",)),
    _replay(
        "whose plan leads out of its folder",
        write("secret.txt", "planted line\n"),
        write(
            f"{RUN}/plan.json",
            json.dumps(
                {"stages": [[{"members": [{"folder": "../../", "cases": [CASE], "environ": {}, "gpus": []}]}]]}
            ),
        ),
        write(f"{RUN}/manifest.jsonl", _manifest()),
        says=("ERROR: ",),
        never=("planted line",),
    ),
    _replay(
        "whose log is a link to a file outside",
        write("secret.txt", "planted line\n"),
        link(f"{RUN}/worker.log", "../../secret.txt"),
        write(
            f"{RUN}/manifest.jsonl",
            _manifest({"event": "case", "case": CASE}, {"event": "assignment", "cases": [CASE]}),
        ),
        says=("failed",),
        code=1,
        never=("planted line",),
    ),
    _replay("that is no folder", write("recorded", "a file"), says=("recorded",)),
    _replay(
        "against damaged baselines",
        _recorded,
        write("baselines/nvidia-h200/test_case.json", "{"),
        says=("test_case.json", "is invalid JSON"),
    ),
    _show("a pipe", pipe("x.sqlite"), file="x.sqlite", says=("x.sqlite is a pipe",)),
    _show("/dev/zero", link("x.sqlite", "/dev/zero"), file="x.sqlite", says=("x.sqlite",)),
    _show("a report that is a pipe", pipe("x.nsys-rep"), file="x.nsys-rep", says=("x.nsys-rep",)),
    _show(
        "a trace that unpacks to zeros",
        write("x.json.gz", lambda: gzip.compress(ZEROS, 1)),
        file="x.json.gz",
        says=("x.json.gz",),
        is_fast=False,
    ),
    _show(
        "an export that unpacks to zeros",
        write("x.sqlite.xz", lambda: lzma.compress(ZEROS, preset=0)),
        file="x.sqlite.xz",
        says=("x.sqlite.xz",),
        is_fast=False,
    ),
    _show(
        "a trace nested a million deep",
        write("x.json", '{"traceEvents":' + "[" * 1_000_000),
        file="x.json",
        says=("x.json",),
    ),
    _show("what is no trace", write("x.json", "{}"), file="x.json", says=("x.json",)),
    _show("nothing", file="nowhere.sqlite", says=("there is no nowhere.sqlite",)),
    _verify("whose evidence is a pipe", pipe("recorded/evidence.json"), says=("evidence.json is a pipe",)),
    _verify(
        "whose evidence is a link to /dev/zero",
        link("recorded/evidence.json", "/dev/zero"),
        says=("evidence.json is a link",),
    ),
    _verify(
        "whose evidence has no end", sparse("recorded/evidence.json", 2**33), says=("evidence.json is damaged",)
    ),
    _verify(
        "whose evidence is nested a million deep",
        write("recorded/evidence.json", "[" * 1_000_000),
        says=("evidence.json is damaged",),
    ),
    _verify("without evidence", _recorded, says=("does not say which files it measured",)),
    Fault(
        name="compare of a pipe",
        command=(*COMMAND, "compare", "a.json", "b.json"),
        prepare=(pipe("a.json"), pipe("b.json")),
        code=2,
        says=("pytest-nsight: ", "a.json"),
    ),
    Fault(
        name="report of a session nested a million deep",
        command=(*COMMAND, "report", "s.json", "--html", "o.html"),
        prepare=(write("s.json", "[" * 1_000_000),),
        code=2,
        says=("pytest-nsight: ", "s.json"),
    ),
    Fault(
        name="history of a session that is a pipe",
        command=(*COMMAND, "history"),
        prepare=(pipe(".nsight/x/result.json"), store_runs),
        code=0,
        says=("result.json is a pipe, not a regular file",),
    ),
    Fault(
        name="history of a baseline that is a pipe",
        command=(*COMMAND, "history"),
        prepare=(pipe("baselines/x/test_case.json"),),
        code=2,
        says=("pytest-nsight: ", "is a pipe"),
    ),
    Fault(
        name="prune of damaged baselines",
        command=(*COMMAND, "baselines", "prune", "--delete"),
        prepare=(damage(lambda text: text[:200]),),
        code=2,
        says=("pytest-nsight: ", "test_case.json"),
    ),
)
