"""Performance gate for GPU kernels: pytest under Nsight Systems, judged against stored baselines."""

from pytest_nsight._version import __version__
from pytest_nsight.errors import NsightError

__all__ = ["NsightError", "__version__"]
