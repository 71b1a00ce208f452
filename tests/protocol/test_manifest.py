"""What a worker's account says of its run, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_nsight.protocol.manifest import FILE_NAME, read_manifest


@pytest.mark.parametrize(
    ("events", "seed"),
    [
        ([{"event": "run", "run": "s/001"}, {"event": "assignment", "seed": 7}], 7),
        ([{"event": "run", "run": "s/001"}, {"event": "assignment", "seed": None}], None),
        ([{"event": "run", "run": "s/001", "seed": 7}], 7),
        ([{"event": "run", "run": "s/001"}], None),
    ],
    ids=[
        "told with the assignment",
        "the user's order",
        "told at the start, as recordings of before have it",
        "no assignment",
    ],
)
def test_the_seed_of_the_order(tmp_path: Path, events: list[dict[str, Any]], seed: int | None) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")

    assert read_manifest(path).seed == seed
