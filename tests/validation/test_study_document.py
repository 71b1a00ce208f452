"""The study of the models: its page is what its data say, and its programs do what they say they do."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.study import __main__ as recorder
from benchmarks.study import program, transformer
from benchmarks.study.document import write_document
from pytest_nsight import api

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "study" / "study.json"
RECORDING = ROOT / "tests" / "data" / "recordings" / "h200_llama_block_graph_node.sqlite.xz"


@pytest.fixture
def study() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def test_the_page_is_what_the_data_say(study: dict[str, Any]) -> None:
    written = (ROOT / "docs" / "study" / "README.md").read_text(encoding="utf-8")

    assert written == write_document(study), (
        "run: python -m benchmarks.study.document docs/study/study.json > docs/study/README.md"
    )


def test_every_model_and_context_of_the_seeds_is_there(study: dict[str, Any]) -> None:
    assert list(study["models"]) == list(transformer.SIZES)
    for model in study["models"].values():
        contexts = {f"context{context} {kind}" for context in transformer.CONTEXTS for kind in ("infer", "train")}
        assert set(model["pictures"]) == contexts


def test_parts_of_a_step_add_up_to_it(study: dict[str, Any]) -> None:
    for model in study["models"].values():
        for label, picture in model["pictures"].items():
            whole = next(row for row in picture["ranges"] if row["depth"] == 1)
            assert sum(row["total_ns"] for row in picture["categories"]) == whole["kernel_ns"], label
            parts = [row for row in picture["ranges"] if row["depth"] == 2]
            assert 0.99 < sum(row["device_ns"] for row in parts) / whole["device_ns"] <= 1, label


def test_a_context_that_ran_out_of_memory_is_said(study: dict[str, Any]) -> None:
    for side in study["models"]["2.7B"]["clocks"].values():
        del side["train"]["1024"]

    assert "| 2.7B | 1024 | out of memory |" in write_document(study)


def test_a_summary_has_what_the_page_needs() -> None:
    found = recorder._summarise(api.load_trace(RECORDING), "train_step")

    places = [row["path"].split("/")[-1] for row in found["ranges"]]
    assert {"forward", "backward", "optimizer", "attention_scores", "attention_softmax"} <= set(places)
    assert json.loads(json.dumps(found)) == found


def test_attention_counts_its_operations() -> None:
    flops = transformer.SIZES["small"].attention_flops(512)

    # The seed's figures for one layer.
    assert {name: count / 12 for name, count in flops.items()} == {
        "attention_scores": 2 * 4 * 12 * 512**2 * 64,
        "attention_softmax": 5 * 4 * 12 * 512**2,
        "attention_value": 2 * 4 * 12 * 512**2 * 64,
    }


@pytest.mark.slow
def test_a_model_runs_and_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class _Ranges:
        @staticmethod
        def range(name: str) -> AbstractContextManager[None]:
            opened.append(name)
            return nullcontext()

    monkeypatch.setattr(program, "nvtx", _Ranges)
    monkeypatch.setattr(transformer, "nvtx", _Ranges)
    monkeypatch.setitem(transformer.SIZES, "small", transformer.Size(2, 32, 4))

    times = program.run_model("small", [8, 16], "cpu")

    assert {kind: list(times[kind]) for kind in ("infer", "train")} == {"infer": ["8", "16"], "train": ["8", "16"]}
    assert all(len(times["train"][context]) == program.STEPS for context in ("8", "16"))
    assert opened.count("context16 train") == program.STEPS
    steps = program.WARM_UP + program.STEPS
    assert opened.count("backward") == 2 * steps
    assert opened.count("attention_softmax") == 2 * 2 * 2 * steps
