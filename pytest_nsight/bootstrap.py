"""How one of our programs is started: with the plugin of this process, whatever lies in the folder it starts in."""

from __future__ import annotations

import sys
from pathlib import Path

_HOME = Path(__file__).parents[1]
_START = """import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from importlib import import_module
sys.exit(import_module(sys.argv[2]).main(Path(sys.argv[3])))"""


def command(module: str, folder: Path) -> tuple[str, ...]:
    """The command line of a module whose `main` takes the folder of a run."""
    return (sys.executable, "-c", _START, str(_HOME), module, str(folder))
