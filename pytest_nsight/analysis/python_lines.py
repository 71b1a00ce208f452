"""What stacks of Python say: which line each is about, how often they were sampled, which threads run Python. Pure.

The line is the program's own one that is nearest to the work.

Frames of an installed package say how a library works, and frames of a framework, of the standard library and of
code that a compiler has written say so of every program. So the innermost frame of the program's own files names a
stack; without one, the innermost frame of a package that is no framework; without that, the innermost frame.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import PurePosixPath

import numpy as np

from pytest_nsight.model.python_stacks import PythonPlace, PythonStacks
from pytest_nsight.model.sorted_keys import rank_groups
from pytest_nsight.model.trace import Flags, Ints

_FRAMEWORKS = re.compile(
    "torch(?:gen|_xla)?|functorch|triton|jax(?:lib)?|cupyx?|cupy_backends|numba(?:_cuda)?|numpy|nvtx|cuda|tensorflow|"
    "tilelang|tvm|warp"
)
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\](.+)", re.DOTALL)
# Free-threaded Python has a "t" behind its version.
_STANDARD = re.compile(r".*[/\\]lib(?:64)?[/\\]python3\.\d+t?[/\\](.+)", re.DOTALL)
_NO_FILE = re.compile(r"<(?!stdin>|ipython-input)")
# Where TorchInductor and Triton keep what they have written.
_WRITTEN = re.compile(r"[/\\](?:torchinductor_[^/\\]*|torch_compile_debug|\.triton)[/\\]|^<eval_with_key>")

_ENTRIES = frozenset({"<module>", "_run_module_as_main", "_bootstrap"})
"""Outermost functions of a program, and of a thread that Python has started."""


class CodeOwner(IntEnum):
    """Whose code a line is, the program's own the highest."""

    SHARED = 0
    """A framework's, the standard library's, or code that a compiler has written."""
    PACKAGE = 1
    """An installed package's."""
    OWN = 2
    """The program's own."""


@dataclass(frozen=True, slots=True)
class StackLines:
    """What stacks are called.

    Attributes:
        line: shape (stacks,), index into ``labels``: the line that names each.
        inner: shape (stacks,), index into ``labels``: the line in which each was.
        labels: such as "train.py:31 main" or "torch/nn/modules/linear.py:134 forward".
    """

    line: Ints
    inner: Ints
    labels: Sequence[str]

    @classmethod
    def of(cls, stacks: PythonStacks) -> StackLines:
        """The lines of all stacks of a trace."""
        owner = np.array([int(find_owner(place.file)) for place in stacks.places] or [0], np.int64)[stacks.place]
        best = np.maximum.reduceat(owner, stacks.first) if len(stacks) else owner
        frames = np.diff(np.append(stacks.first, len(stacks.place)))
        is_best = owner == np.repeat(best, frames)
        position = np.where(is_best, np.arange(len(owner)), len(owner))
        named = np.minimum.reduceat(position, stacks.first) if len(stacks) else position
        texts = label_places(stacks.places)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        of_place = np.array([numbers[text] for text in texts] or [0], np.int64)
        return cls(of_place[stacks.place[named]], of_place[stacks.innermost()], list(numbers))


def find_owner(file: str) -> CodeOwner:
    """Whose code a file holds.

    Args:
        file: its path, as Python gives it.
    """
    if _WRITTEN.search(file) or _NO_FILE.match(file):
        return CodeOwner.SHARED
    if match := _INSTALLED.match(file):
        package = re.split(r"[/\\.]", match[1], maxsplit=1)[0]
        return CodeOwner.SHARED if _FRAMEWORKS.fullmatch(package) else CodeOwner.PACKAGE
    return CodeOwner.SHARED if _STANDARD.match(file) else CodeOwner.OWN


def shorten_path(file: str) -> str:
    """The path of a file without the folders that say where Python is installed.

    Args:
        file: its path; one outside of Python's folders stays as it is.
    """
    match = _INSTALLED.match(file) or _STANDARD.match(file)
    return match[1] if match else file


def label_places(places: Sequence[PythonPlace]) -> list[str]:
    """What places are called: file, line and function, with no more folders than distinguish the files.

    Args:
        places: of all stacks.
    """
    shown = _name_files({place.file for place in places})
    return [f"{shown[place.file]}:{place.line} {place.function}" for place in places]


def _name_files(files: set[str]) -> dict[str, str]:
    """A name for each file: its path in a package, or the last parts of a path that are no other file's name."""
    names = {file: shorten_path(file) for file in files}
    own = {file: PurePosixPath(file.replace("\\", "/")).parts for file, name in names.items() if name == file}
    taken = {name for file, name in names.items() if name != file}
    for parts in range(1, max(map(len, own.values()), default=0) + 1):
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for file, path in own.items():
            alike[str(PurePosixPath(*path[-parts:]))].append(file)
        for name, holders in alike.items():
            if len(holders) == 1 and name not in taken:
                names[holders[0]] = name
                del own[holders[0]]
    return names


def sampling_period(stacks: PythonStacks) -> float:
    """The median time between two samples of a thread in ns, 0 where no thread has two."""
    samples = np.flatnonzero(stacks.is_sample)
    thread, _ = rank_groups(stacks.process[samples], stacks.thread[samples])
    order = np.lexsort((stacks.at_ns[samples], thread))
    apart_ns, is_same = np.diff(stacks.at_ns[samples][order]), np.diff(thread[order]) == 0
    return float(np.median(apart_ns[is_same])) if is_same.any() else 0.0


def flag_python_threads(stacks: PythonStacks, thread: Ints, process: Ints) -> Flags:
    """Which threads run Python all the time, shape (threads,); others only where a library calls some, or never.

    If no thread of a process shows that Python has started it, all that have stacks count.

    Args:
        stacks: any stacks.
        thread: shape (stacks,), thread of each.
        process: shape (threads,), process of each.
    """
    is_entry = np.array([place.function in _ENTRIES for place in stacks.places] or [False], np.bool_)
    outermost = stacks.place[np.append(stacks.first[1:], len(stacks.place)) - 1] if len(stacks) else stacks.place
    has_stack, is_started = np.zeros(len(process), np.bool_), np.zeros(len(process), np.bool_)
    has_stack[thread] = True
    is_started[thread[is_entry[outermost]]] = True
    is_known = np.isin(process, process[is_started])
    return np.where(is_known, is_started, has_stack)
