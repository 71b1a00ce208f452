"""A pytest plugin: mends what Triton's interpreter, up to 3.6, does not do with numpy from 2.4 on.

The interpreter keeps scalars as arrays of one element. For the bounds of a loop it called `int` on them, which
numpy 2.4 refuses of anything but arrays without dimensions; later versions of Triton squeeze them first.
"""

from __future__ import annotations

from typing import Any


def pytest_configure() -> None:
    """Let loops take scalars as bounds."""
    from triton.runtime import interpreter  # noqa: PLC0415 (only where the interpreted checks run)

    patch_tensor = interpreter._patch_lang_tensor

    def patch_and_mend(tensor: Any, *scope: Any) -> None:
        patch_tensor(tensor, *scope)
        # The interpreter has kept the original, and restores it after the launch.
        tensor.__index__ = lambda self: int(self.handle.data.squeeze())

    interpreter._patch_lang_tensor = patch_and_mend
