"""Which versions of CUDA's libraries a process has loaded, asked of the loaded files themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolchain import require_gcc

SOURCE = """
int {name}GetProperty(int part, int* value) {{
    static const int parts[] = {{13, 1, 2}};
    *value = parts[part];
    return {status};
}}
"""

PROGRAM = """
import ctypes, sys
from pytest_nsight.worker.library_versions import read_library_versions
before = read_library_versions()
libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]
after = read_library_versions()
print(sorted(after.items() - before.items()))
"""


def _compile(folder: Path, file: str, source: str) -> str:
    (folder / "library.c").write_text(source)
    subprocess.run([require_gcc(), "-shared", "-o", folder / file, folder / "library.c"], check=True)
    return str(folder / file)


@pytest.mark.slow
def test_each_loaded_library_gives_its_version_and_one_that_gives_none_has_an_empty_one(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    folder.mkdir()
    paths = [
        _compile(folder, "libcublas.so.13", SOURCE.format(name="cublas", status=0)),
        _compile(tmp_path, "libcudnn.so.9", SOURCE.format(name="cudnn", status=1)),
        _compile(tmp_path, "libcufft.so", "int another;"),
        _compile(tmp_path, "libcublasLt.so.13", SOURCE.format(name="cublasLt", status=0)),
    ]

    done = subprocess.run([sys.executable, "-c", PROGRAM, *paths], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[('cublas', '13.1.2'), ('cudnn', ''), ('cufft', '')]"
