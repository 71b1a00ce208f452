"""A benchmark script that `pytest-nsight run` measures: how it is run, and what its first pass found in it.

Which calls a script makes is known only after running it. So its first pass runs without a profiler, each call is
answered by the function that the script meant, and the values are stored. Every later pass returns these values: a
script that decides by its numbers takes the same way each time.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pytest_nsight.protocol.json_files import read_json_file

FIRST_PASS = "first-pass"
"""Name of the first pass's folder in that of the session."""

_CALLS_FILE = "calls.json"
_VALUES_FILE = "values.pickle"
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""What Python prints of an object that prints nothing else."""

_MOST_CHARACTERS = 150
_DIGEST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Script:
    """A script with its command line.

    Attributes:
        path: its file, absolute.
        module: its dotted name where it is run with `-m`, else "".
        arguments: what follows it on the command line.
        name: stands for the arguments in the ids of its cases; "" if there are none.
        file: its path as node ids have it: relative to pytest's root folder, with slashes.
        first_pass: folder with what its first pass found; "" before it.
    """

    path: str
    module: str = ""
    arguments: tuple[str, ...] = ()
    name: str = ""
    file: str = ""
    first_pass: str = ""

    @property
    def scope(self) -> str:
        """The node id of its cases, less their own names: "bench.py", or "bench.py::--dtype fp16"."""
        return f"{self.file}::{self.name}" if self.name else self.file

    @property
    def command(self) -> str:
        """How a user runs it, from the folder that it was run in."""
        return shlex.join(("python", *(("-m", self.module) if self.module else (self.file,)), *self.arguments))

    def case(self, call: str) -> str:
        """Node id of a call."""
        return f"{self.scope}::{call}"


@dataclass(frozen=True, slots=True)
class FirstPass:
    """The calls that a script made when nothing was measured.

    Attributes:
        calls: their names, in order.
        unmeasured: sentences on what it made beside them.
        raised: name of a call that raised, which is no case -> the line that names its error.
    """

    calls: tuple[str, ...]
    unmeasured: tuple[str, ...] = ()
    raised: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Writes them into the folder of the first pass."""
        (folder / _CALLS_FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Whether the first pass in this folder came to its end."""
        return (folder / _CALLS_FILE).exists()

    @classmethod
    def read(cls, folder: Path) -> FirstPass:
        """What the folder of a first pass holds.

        Raises:
            RecordingError: it holds none, or it cannot be read.
        """
        return read_json_file(cls, folder / _CALLS_FILE)


def write_values(folder: Path, values: Mapping[str, bytes]) -> None:
    """Stores what calls returned: name -> pickled value, each for itself, for reading one may import its module."""
    (folder / _VALUES_FILE).write_bytes(pickle.dumps(dict(values)))


def read_values(folder: Path) -> dict[str, bytes]:
    """What `write_values` stored. The file is of this session, which has just written it."""
    values: dict[str, bytes] = pickle.loads((folder / _VALUES_FILE).read_bytes())
    return values


def clean_name(text: str) -> str:
    """The text as a part of a node id: printable, on one line, without the separator of node ids, not too long.

    A name that is cut, or has lost separators, ends with a digest of its text: other texts get other names.
    Addresses in memory are left out, since the next process has others.
    """
    text = ADDRESS.sub("", text)
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    name = re.sub("::+", ":", line)
    if name == line and len(name) <= _MOST_CHARACTERS:
        return name
    digest = f"~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGEST_DIGITS]}"
    return name[: _MOST_CHARACTERS - len(digest)] + digest
