"""git, for tests that make a repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

# The machine's own settings may name nobody, or sign commits. Git clones no submodule from a folder by default.
_SETTINGS = {
    "user.name": "n",
    "user.email": "n@example.org",
    "commit.gpgsign": "false",
    "protocol.file.allow": "always",
}


def git(folder: Path, *arguments: str) -> str:
    """Runs git in a folder; returns what it prints, stripped.

    Raises:
        subprocess.CalledProcessError: it fails.
    """
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
