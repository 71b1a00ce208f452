"""What records the device's work while a worker measures: the seam between rounds and collectors."""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    """Marks the ranges of rounds in whatever record is being made of the process."""

    def start(self) -> None:
        """Called before the warm-up of a case."""

    def stop(self) -> None:
        """Called after the last round of a case."""

    def push(self, name: str, payload: int) -> None:
        """Opens a range; `payload` identifies it, `name` is for people."""

    def pop(self) -> None:
        """Closes the range opened last."""
