"""Which line of Python a stack is about: the program's own one that is nearest to the work. Pure.

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
from pytest_nsight.model.trace import Ints

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
