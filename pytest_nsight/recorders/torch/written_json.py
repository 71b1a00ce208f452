"""What torch.profiler writes: JSON that is none where a name holds a quote, and the names of our ranges in it."""

from __future__ import annotations

import re

# By name: a test may replace what their module holds, and its record must still be written.
from json import dumps, loads
from urllib.parse import quote, unquote

PREFIX = "pytest_nsight:"
"""A range of ours is a record_function named `pytest_nsight:<payload>:<name>`."""

# What may stay as it is in a name that torch writes between quotes without a look at it.
_HARMLESS = " ()*+,-./:;<=>[]_|~"
# A name in what torch writes: each on a line of its own, its quotes and backslashes as they are.
_WRITTEN_NAME = re.compile(r'^(\s*"name": ")(.*?)(",?)$', re.MULTILINE)
# The path of the file, its last value, likewise.
_WRITTEN_PATH = re.compile(r'(?<!\\)("traceName": ")(.*)("\s*\}\s*)\Z', re.DOTALL)


def range_name(payload: int, name: str) -> str:
    """The name of a range of ours for torch, which writes it as it is."""
    return f"{PREFIX}{payload}:{quote(name, _HARMLESS, errors='surrogatepass')}"


def restored_name(name: str) -> str:
    """A name as the program gave it: a range of ours without its escapes, any other as it is."""
    return unquote(name, errors="surrogatepass") if name.startswith(PREFIX) else name


def parse_written(text: str) -> object:
    """What torch wrote as JSON, which it is not where a program's name or the path holds a quote or a backslash.

    Args:
        text: the file, a value on each line.

    Raises:
        ValueError: it is no JSON for another reason.
    """
    decoded: object
    try:
        decoded = loads(text, strict=False)
    except ValueError:
        text = _WRITTEN_NAME.sub(_escape, text)
        decoded = loads(_WRITTEN_PATH.sub(_escape, text), strict=False)
    return decoded


def _escape(written: re.Match[str]) -> str:
    before, name, after = written.groups()
    return f"{before}{dumps(name)[1:-1]}{after}"
