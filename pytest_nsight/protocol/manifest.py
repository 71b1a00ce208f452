"""The worker's append-only account of a run: what it ran, when, on which device, with which outcome.

One JSON object a line, so that whatever dies, everything before is readable. Events, by "event":
run (format, run, session, recorded, commit, pid, tree) · assignment (seed) · device (name, board, environment) · case ·
round · conditions · report · case_end · work (case, bytes_moved, flops) · canary_fault (case, text) ·
race (case, partner, own_rounds, partner_rounds) · race_fault (case, text) · fault (a collection error) ·
surplus (cases that only the other tree has) · leak (module, file) · end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from pytest_nsight.model.errors import RecordingError
from pytest_nsight.model.values import Work

FORMAT_VERSION = 1
FILE_NAME = "manifest.jsonl"

_SHOWN = 200
"""Characters of an error that a fault keeps."""


@dataclass(frozen=True, slots=True)
class NvmlSample:
    """What NVML said right after a round; None where it cannot be read.

    Attributes:
        sm_mhz: SM clock.
        power_w: power draw.
        temperature_c: GPU temperature.
        reasons: names of the active slowdown reasons.
    """

    sm_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One measured round.

    Attributes:
        id: payload of the round's NVTX range, unique in the run's process.
        case: node id.
        parts: (payload, name) of the named ranges inside, in order of opening.
        start_ns: wall clock (Unix epoch) when the range opened.
        wall_ns: host time from opening the range to the end of the synchronisation inside it.
        rest_ns: pause before the round.
        cold_cache: whether the cache was flushed before it.
        reading: NVML's word on the round.
        is_slowed: whether the board ran below its highest clock or named a reason to slow down.
    """

    id: int
    case: str
    parts: tuple[tuple[int, str], ...]
    start_ns: int
    wall_ns: int
    rest_ns: int
    cold_cache: bool
    reading: NvmlSample = field(default_factory=NvmlSample)
    is_slowed: bool = False


@dataclass(frozen=True, slots=True)
class BoardActivity:
    """What else goes on on the board at a moment.

    Attributes:
        energy_mj: energy drawn since the driver was loaded, None where it cannot be read.
        others: processes that compute there and are not the session's, such as "pid 123 (python)".
    """

    energy_mj: int | None = None
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """How the rounds of one case went as a whole.

    Attributes:
        case: node id.
        busy_ns: how long a round and the emptying of the cache kept the device busy in the warm-up.
        settled_ns: time waited for the clock to recover before the first round.
        rest_ns: pause before the first round.
        last_rest_ns: pause before the last round; longer if the board slowed down meanwhile.
        error: relative standard error of the rounds as far as the host's durations tell, None if they do not.
        elapsed_ns: time from the first pause to the end of the last round.
        energy_mj: energy that the board drew in this time, None where it cannot be read.
        others: processes of others on the board before or after.
    """

    case: str
    busy_ns: int
    settled_ns: int
    rest_ns: int
    last_rest_ns: int
    error: float | None
    elapsed_ns: int
    energy_mj: int | None
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A run as its worker told it.

    Attributes:
        run: id of the run.
        session: id of the session.
        recorded: UTC time of the session, ISO 8601.
        commit: git commit of the tested tree, "" when unknown.
        pid: the worker's process.
        device: name of the GPU, or of the processor where there is none; "" if no case measured anything.
        board: UUID of the GPU, or the processor's name.
        environment: see baselines/environment.py.
        started: cases in the order in which they began.
        ended: cases that came to their end.
        rounds: all measured rounds, in order.
        reports: (case, serialised pytest report), in order.
        faults: what went wrong outside of any case.
        tree: which tree was measured, see launch/assignment.py.
        only_there: marked tests of the other tree that are no cases.
        leaks: (module, file) of what a worker took from the wrong tree.
        seed: of the order of the cases, None where that was the user's.
        pairs: (case, partner, id of the case's rounds, id of the partner's) of cases measured in turns.
        pair_faults: (case, what went wrong) of races that broke off.
        conditions: case -> how its rounds went, of the cases whose rounds came to their end.
        canary_faults: (case, what went wrong) of canaries that could not be measured.
        exit_code: pytest's exit code in the worker; None if the worker did not come to its own end.
        work: case -> what a round of it has to do, where the test says so; what it said last.
    """

    run: str
    session: str
    recorded: str
    commit: str
    pid: int
    device: str
    board: str
    environment: dict[str, str]
    started: tuple[str, ...]
    ended: tuple[str, ...]
    rounds: tuple[Round, ...]
    reports: tuple[tuple[str, dict[str, Any]], ...]
    faults: tuple[str, ...]
    exit_code: int | None
    seed: int | None = None
    tree: str = ""
    only_there: tuple[str, ...] = ()
    leaks: tuple[tuple[str, str], ...] = ()
    canary_faults: tuple[tuple[str, str], ...] = ()
    work: dict[str, Work] = field(default_factory=dict)
    conditions: Mapping[str, Conditions] = field(default_factory=dict)
    pairs: tuple[tuple[str, str, str, str], ...] = ()
    pair_faults: tuple[tuple[str, str], ...] = ()


class Journal:
    """Writes a manifest, line by line; every line reaches the file before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, event: str, **values: Any) -> None:
        """Appends one event."""
        self._file.write(json.dumps({"event": event, **values}, default=str) + "\n")
        self._file.flush()

    def write_work(self, case: str, work: Work) -> None:
        """Appends what a round of the case has to do."""
        self.write("work", case=case, **asdict(work))

    def write_fault(self, event: str, case: str, error: Exception) -> None:
        """Appends that something failed beside a case, in one line."""
        lines = str(error).splitlines() or [""]
        self.write(event, case=case, text=f"{type(error).__name__}: {lines[0]}"[:_SHOWN])

    def write_conditions(self, conditions: Conditions) -> None:
        """Appends how a case went."""
        self.write("conditions", **asdict(conditions))

    def write_round(self, measured: Round) -> None:
        """Appends one measured round."""
        self.write("round", **asdict(measured))


def events(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the events of a manifest; a last line cut off by a crash is left out.

    Raises:
        RecordingError: the file is missing or holds something else.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise RecordingError(f"{path} cannot be read ({error.strerror}); is this a session's folder?") from None
    for number, line in enumerate(lines[:-1], 1):
        try:
            event = json.loads(line)
            event["event"]
        except (ValueError, TypeError, KeyError):
            raise RecordingError(f"{path}, line {number}: not a manifest of pytest-nsight") from None
        yield event


def read_manifest(path: Path) -> Manifest:
    """Reads a run's manifest, whole or cut off.

    Raises:
        RecordingError: the file is missing, damaged, or of a newer pytest-nsight.
    """
    known: dict[str, list[dict[str, Any]]] = {}
    for event in events(path):
        known.setdefault(event.pop("event"), []).append(event)
    head = known.get("run", [{}])[0]
    device = known.get("device", [{}])[0]
    if head.get("format", FORMAT_VERSION) > FORMAT_VERSION:
        raise RecordingError(f"{path} was written by a newer pytest-nsight (format {head['format']}); upgrade")
    try:
        return Manifest(
            run=head.get("run", ""),
            session=head.get("session", ""),
            recorded=head.get("recorded", ""),
            commit=head.get("commit", ""),
            pid=head.get("pid", 0),
            device=device.get("name", ""),
            board=device.get("board", ""),
            environment=device.get("environment", {}),
            started=tuple(event["case"] for event in known.get("case", [])),
            ended=tuple(event["case"] for event in known.get("case_end", [])),
            rounds=tuple(_round(event) for event in known.get("round", [])),
            reports=tuple((event["case"], event["report"]) for event in known.get("report", [])),
            faults=tuple(event["text"] for event in known.get("fault", [])),
            exit_code=known["end"][0]["code"] if "end" in known else None,
            # In older recordings the head tells it.
            seed=known.get("assignment", [head])[0].get("seed"),
            tree=head.get("tree", head.get("side", "")),
            only_there=tuple(case for event in known.get("surplus", []) for case in event["cases"]),
            leaks=tuple((event["module"], event["file"]) for event in known.get("leak", [])),
            conditions={event["case"]: _conditions(event) for event in known.get("conditions", [])},
            pairs=tuple(_pair(event) for event in known.get("race", [])),
            pair_faults=tuple((event["case"], event["text"]) for event in known.get("race_fault", [])),
            canary_faults=tuple((event["case"], event["text"]) for event in known.get("canary_fault", [])),
            work={event["case"]: _work(event) for event in known.get("work", [])},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordingError(f"{path}: an event lacks or garbles {error}; the manifest is damaged") from None


def _work(event: dict[str, Any]) -> Work:
    return Work(bytes_moved=int(event["bytes_moved"]), flops=int(event["flops"]))


def _pair(event: dict[str, Any]) -> tuple[str, str, str, str]:
    return event["case"], event["partner"], event["own_rounds"], event["partner_rounds"]


def _conditions(event: dict[str, Any]) -> Conditions:
    return Conditions(**{**event, "others": tuple(event["others"])})


def _round(event: dict[str, Any]) -> Round:
    reading = dict(event["reading"])
    reading["reasons"] = tuple(reading.get("reasons", ()))
    parts = tuple((int(payload), str(name)) for payload, name in event["parts"])
    return Round(**{**event, "parts": parts, "reading": NvmlSample(**reading)})
