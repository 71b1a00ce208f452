"""What a round gives the device to do, as far as it decides the time. Inert values; equal ones need no timing.

An identity is exact where a time is noisy: it holds machine code, shape and arguments of every launch, in order.
It is of one GPU architecture, as machine code is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

MOST_LAUNCHES = 512
"""Different launches of a round that are kept; of more only the digest is."""

THEN = ", then "
"""Between the texts of an argument in two rounds, where its numbers differ, as those of a step."""

SHORT_OF_MEMORY = "the device's memory ran short"
"""Why a case has no identity whose allocator had to give back its cache: what it then takes lies elsewhere."""

POINTER = re.compile(r"pointer \d+ aligned to (?P<alignment>\d+) into (?P<allocation>\d+ bytes[a-z ]*|the process)")
"""An address in the text of an argument."""

READING = 2
"""The way in which launches are read; it counts up when the same launch may get another text.

1: pieces of expandable segments count as allocations. 2: no segment of torch's is expandable.
"""

_LONGEST_ARGUMENT, _SHOWN, _DIGITS = 80, 48, 16
"""Characters of an argument's text that is kept whole; of a longer one its beginning, and digits of its digest."""

_CUT = "..."

_OF_GRAPHS = ("graph node", "captured")

Extent = tuple[int, int, int]

DEVICE_METRICS = ("kernel", "busy")
"""The durations that an identity decides. The others depend on the host, or on where its memory lies."""


CUDNN, INDUCTOR, XLA = "cuDNN", "Inductor", "XLA"
"""Stand for the kernels that a library chooses by their times: which these are follows from what was launched."""

CHOOSERS = (CUDNN, INDUCTOR, XLA)


@dataclass(frozen=True, slots=True, order=True)
class TunedKernel:
    """A kernel whose configuration an autotuner has chosen.

    Attributes:
        name: normalised, or one of CHOOSERS, which stand for all that they choose.
        problem: digest of its source, the configurations to choose from, its grid, and its arguments' values, kinds
            and layouts; of INDUCTOR a graph with its inputs, of XLA a program. Of CUDNN only settings are known.
        config: what was chosen, as "name: value" with commas between; "" for CHOOSERS.
        launches: of a round.
    """

    name: str
    problem: str
    config: str
    launches: int = 1


@dataclass(frozen=True, slots=True)
class MachineCode:
    """A kernel's machine code.

    Attributes:
        digest: of all that runs.
        instructions: slots of its code, padding at the end included.
        registers: per thread.
        frame_bytes: local memory per thread, spills included.
        shared_bytes: static shared memory.
        loops: instructions in the body of each loop, in the order of the code; empty also where that is unknown,
            as in baselines of before. It follows from the code, which the digest is of.
    """

    digest: str
    instructions: int = 0
    registers: int = 0
    frame_bytes: int = 0
    shared_bytes: int = 0
    loops: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """One launch, copy or set, as far as it decides what the device does.

    Attributes:
        kind: "kernel", "copy", "set", "graph node", or "captured" for a launch that went into a graph.
        name: of the kernel, as the linker knows it; direction of a copy; value of a set.
        code: of the kernel; None for copies and sets.
        grid: blocks.
        block: threads.
        cluster: blocks of a cluster, (0, 0, 0) for none.
        shared_bytes: dynamic shared memory.
        arguments: one text per argument; for a copy or set its size. In an Identity long ones are shortened.
        stream: number of its stream, in the order in which streams first appear; 0 as long as one stream is all
            that can be identified.
        part: names of the test's ranges around it, joined by slashes; "" outside of them.
    """

    kind: str
    name: str
    code: MachineCode | None = None
    grid: Extent = (0, 0, 0)
    block: Extent = (0, 0, 0)
    cluster: Extent = (0, 0, 0)
    shared_bytes: int = 0
    arguments: tuple[str, ...] = ()
    stream: int = 0
    part: str = ""

    @property
    def is_kernel(self) -> bool:
        """Whether it runs machine code."""
        return self.kind in ("kernel", "graph node")


@dataclass(frozen=True, slots=True)
class Identity:
    """What every round of a case gives the device to do.

    Attributes:
        digest: the same for the same work, "" where the case has no identity.
        launches: each once, in order of first appearance; empty where there are more than MOST_LAUNCHES.
        order: place in `launches` and how often in a row, from the first launch of a round to the last.
        why_none: why the case has no identity, "" if it has one.
        reading: version of the analysis; identities of different versions are not compared.
    """

    digest: str = ""
    launches: tuple[LaunchIdentity, ...] = ()
    order: tuple[tuple[int, int], ...] = ()
    why_none: str = ""
    reading: int = 1

    def expand(self) -> Iterator[LaunchIdentity]:
        """All launches of a round, in order."""
        for place, times in self.order:
            for _ in range(times):
                yield self.launches[place]

    def list_part(self, name: str) -> tuple[LaunchIdentity, ...]:
        """The launches of a round inside ranges of this name, in order; empty where they are not known.

        What a CUDA graph holds belongs to ranges around its capture, which are not kept. A name with a slash looks
        like two ranges, one inside the other, and has none.
        """
        if any(launch.kind in _OF_GRAPHS for launch in self.launches):
            return ()
        return tuple(launch for launch in self.expand() if name in launch.part.split("/"))


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two sequences of launches differ.

    Attributes:
        launch: its place in the sequence, -1 where the number of launches differs.
        what: the attribute, such as "grid" or "argument 3".
        before: its value in the first sequence, as text.
        after: its value in the second.
    """

    launch: int
    what: str
    before: str
    after: str


def make_identity(launches: Sequence[LaunchIdentity]) -> Identity:
    """The identity of a round that makes these launches, at least one; its digest is of the whole arguments."""
    hashed = hashlib.sha256()
    places: dict[LaunchIdentity, int] = {}
    for launch in launches:
        places.setdefault(launch, len(places))
        hashed.update(repr(_list_fields(launch)).encode() + b"\n")
    order = tuple((place, sum(1 for _ in group)) for place, group in groupby(places[launch] for launch in launches))
    kept = tuple(shorten_arguments(launch) for launch in places)
    whole = Identity(hashed.hexdigest()[:32], kept, order, reading=READING)
    return whole if len(places) <= MOST_LAUNCHES else replace(whole, launches=(), order=())


def shorten_arguments(launch: LaunchIdentity) -> LaunchIdentity:
    """A launch as an Identity keeps it: lists of hundreds of tensors took megabytes of a baseline file."""
    if all(len(text) <= _LONGEST_ARGUMENT for text in launch.arguments):
        return launch
    return replace(launch, arguments=tuple(_shorten(text) for text in launch.arguments))


def _shorten(text: str) -> str:
    if len(text) <= _LONGEST_ARGUMENT:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
    return f"{text[:_SHOWN]}{_CUT}{THEN if THEN in text else ' '}#{digest}"


def _list_fields(launch: LaunchIdentity) -> tuple[object, ...]:
    return (
        launch.kind,
        launch.name,
        launch.code.digest if launch.code else "",
        launch.grid,
        launch.block,
        launch.cluster,
        launch.shared_bytes,
        launch.arguments,
        launch.stream,
        launch.part,
    )


def compare_launches(before: Sequence[LaunchIdentity], after: Sequence[LaunchIdentity]) -> list[Difference]:
    """In what two sequences differ, launch by launch; nothing where they are identical."""
    if len(before) != len(after):
        return [Difference(-1, "launches", str(len(before)), str(len(after)))]
    found = []
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        if one != other:
            found += [replace(difference, launch=index) for difference in _compare(one, other)]
    return found


def differ_in_addresses(one: Identity, other: Identity) -> bool:
    """Whether two identities differ, but as far as they are kept in nothing but what addresses point to.

    Which of several free blocks of a size an allocator takes depends on their addresses, and so on all that the
    process has done before, at whatever moment. Of a long argument only a digest is kept: it counts as addresses.
    """
    if not one.digest or not other.digest or one.digest == other.digest or one.reading != other.reading:
        return False
    if not one.launches or not other.launches:
        return False
    return [_leave_out_addresses(launch) for launch in one.expand()] == [
        _leave_out_addresses(launch) for launch in other.expand()
    ]


def _leave_out_addresses(launch: LaunchIdentity) -> tuple[object, ...]:
    arguments = tuple("" if _CUT in text else POINTER.sub("", text) for text in launch.arguments)
    return _list_fields(replace(launch, arguments=arguments))


def _compare(one: LaunchIdentity, other: LaunchIdentity) -> Iterator[Difference]:
    if one.name != other.name or one.kind != other.kind:
        yield Difference(0, one.kind if one.kind == other.kind else "kind", _say(one, other), _say(other, one))
        return
    if one.code != other.code:
        yield Difference(0, "code", one.code.digest if one.code else "", other.code.digest if other.code else "")
    for what in ("grid", "block", "cluster", "shared_bytes", "stream", "part"):
        if getattr(one, what) != getattr(other, what):
            yield Difference(0, what, str(getattr(one, what)), str(getattr(other, what)))
    if len(one.arguments) != len(other.arguments):
        yield Difference(0, "arguments", str(len(one.arguments)), str(len(other.arguments)))
        return
    for place, (was, is_now) in enumerate(zip(one.arguments, other.arguments, strict=True)):
        if was != is_now:
            yield Difference(0, f"argument {place}", was, is_now)


def _say(launch: LaunchIdentity, other: LaunchIdentity) -> str:
    return launch.name if launch.kind == other.kind else f"{launch.kind} {launch.name}"
