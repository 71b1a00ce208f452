"""Variables that modules set while they are imported differ from those that tests set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_nsight.worker.import_variables import ImportVariables

MODULE = """
import os
os.environ["TEXT"] = "1"
os.environ["TEXT"] = "2"
os.environb[b"BYTES"] = b"3"
os.environ.setdefault("DEFAULT", "4")
os.environ["DELETED"] = "5"
del os.environ["DELETED"]

def later():
    os.environ["LATER"] = "6"
"""


def test_the_last_value_of_an_import_is_known_until_the_next_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sets_variables.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("TEXT", "BYTES", "DEFAULT", "DELETED", "LATER", "BESIDE"):
        # So that all are as before afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    variables = ImportVariables()
    variables.watch()
    try:
        import sets_variables  # type: ignore[import-not-found]  # noqa: PLC0415

        os.environ["BESIDE"] = "7"
        sets_variables.later()
        assert variables.values == {"TEXT": "2", "BYTES": "3", "DEFAULT": "4"}
        variables.forget()
        assert not variables.values
    finally:
        variables.stop()
    assert os.environ["LATER"] == "6"
