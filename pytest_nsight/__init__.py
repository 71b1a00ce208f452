"""Performance gate for GPU kernels: pytest under Nsight Systems, judged against stored baselines."""

__version__ = "0.1.0"

from pytest_nsight.model.errors import NsightError

__all__ = ["NsightError", "__version__"]
