"""Performance gate for GPU kernels: pytest under Nsight Systems, judged against stored baselines.

PYTEST_DONT_REWRITE: a worker imports the package before its pytest begins. Pytest would warn that it comes too late
to rewrite the package's assertions, and a project that turns warnings into errors would end there.
"""

from pytest_nsight.model.errors import NsightError

__all__ = ["NsightError", "__version__"]


def __getattr__(name: str) -> str:
    """`__version__`: of the installed package, from the tag that it was built at.

    It is looked up when it is asked for, since each command would wait for the look-up.
    """
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version("pytest-nsight")
    except PackageNotFoundError:
        # Imported from a checkout that is not installed.
        return "0.0.0.dev0"
