"""What Nsight Systems says went wrong: recognised, quoted, never guessed."""

from __future__ import annotations

import sys

import pytest

from pytest_nsight.collectors.nsys.export import find_complaint
from pytest_nsight.collectors.nsys.known_errors import KNOWN_ERRORS, quote, recognise
from pytest_nsight.collectors.nsys.missing_records import explain_emptiness
from pytest_nsight.collectors.nsys.nsys_collector import EXPORT_FILE, NsysCollector
from pytest_nsight.collectors.nsys.private_folder import FOLDER_NAME
from pytest_nsight.collectors.nsys.read import read
from pytest_nsight.protocol.job import WORKER_LOG
from tests.collectors.real import environment
from tests.trace.trace_builder import TraceBuilder

STRINGS = (
    'Nsight Systems says "Cannot find string for an exterior index": its importer cannot read the NVTX strings '
    "of a library and drops what follows them; measure without --nsight-user-ranges, or update Nsight Systems"
)


def test_a_recording_that_the_importer_damaged_is_read_with_its_words(fake, tmp_path, monkeypatch):
    """As nsys 2025.3 leaves it after ranges of JAX: exit code 0, a report, and the rest is lost."""
    run = tmp_path / "run"
    worker = (sys.executable, "-c", "print('Importer error status: of the test itself')")
    collector = NsysCollector(fake)
    with collector.start(worker, run, tmp_path, environment(NSYS_FAKE="damaged")) as process:
        assert process.wait(60) == 0
    exported = TraceBuilder().range("case", 0, 100).launch("k", 10, 20, api_at=5)
    monkeypatch.setattr(
        "pytest_nsight.collectors.nsys.nsys_collector.export",
        lambda *_, **__: exported.write(run / FOLDER_NAME / EXPORT_FILE),
    )

    trace = collector.collect(run)

    assert trace.damage == STRINGS
    assert trace.notes == (STRINGS,)
    collector.tidy(run, keep=True)
    assert not (run / FOLDER_NAME).exists()


def test_what_the_worker_prints_is_not_taken_for_a_complaint(tmp_path):
    log = tmp_path / WORKER_LOG
    log.write_text("Importer error status: Importation failed.\nGenerating '/x.qdstrm'\nGenerated:\n\t/x\n")

    assert find_complaint(log) is None


def test_the_detail_of_an_unknown_error_is_quoted(tmp_path):
    log = tmp_path / WORKER_LOG
    log.write_text(
        "Generating '/x.qdstrm'\nImporter error status: Importation succeeded with non-fatal errors.\n"
        '   Type: ErrorText\n   Value: "A new \\"thing\\" happened"\n'
    )

    complaint = find_complaint(log)

    assert complaint is not None
    assert complaint.quote.startswith("A new")
    assert complaint.meaning == "its importer left out what it could not read"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Wrong event order has been detected when adding events to the collection:\nnew event", "order of time"),
        ("Not all CUDA events might have been collected.", "the last CUDA records are missing"),
        ("CUPTI dropped 12 records. Some CUPTI events might be missing.", "dropped 12 records"),
        ("CUDA profiling might have not been started correctly.", "could not attach to CUDA"),
        ("Installed CUDA driver version (13.0) is not supported by this build of Nsight Systems.", "driver, 13.0,"),
        ("x: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "another profiler uses CUPTI"),
        ("Qdstrm version 2023.4.4 not supported", "another version"),
        ("Exportation error: Version number is invalid: 2023@4@4@54-234433681190v0", "a newer version"),
        ("Executable 'no-such' not found in current directory", "cannot find the program no-such"),
        ("sh: 1: exec: no-such: not found", "cannot find the program no-such"),
        ("**** Errors occurred while processing the raw events. ****", "left out what it could not read"),
    ],
)
def test_what_nsys_says_is_recognised(text, meaning):
    complaint = recognise(text)

    assert complaint is not None
    assert meaning in complaint.meaning
    assert complaint.remedy
    assert "*" not in complaint.quote
    assert "\n" not in complaint.sentence


def test_unknown_words_are_not_guessed_at():
    assert recognise("Something new happened") is None


def test_every_entry_has_a_remedy_and_no_leftover_place_holder():
    assert all(known.meaning and known.remedy for known in KNOWN_ERRORS)
    assert all("{0}" not in known.remedy for known in KNOWN_ERRORS)


@pytest.mark.parametrize("said", ["\x1b[31mred\x1b[0m", "a\r\nb", "::error::x", "x" * 5000, "\u202egpj"])
def test_a_quote_is_one_short_line_without_control_characters(said):
    text = quote(said)

    assert text.isprintable()
    assert len(text) <= 200


@pytest.mark.parametrize(
    ("diagnostic", "words"),
    [
        ("CUPTI dropped 5 records.", 'Nsight Systems says "CUPTI dropped 5 records": CUPTI dropped 5'),
        ("oh no", 'nsys says "oh no"'),
    ],
)
def test_a_recording_without_kernels_is_explained_by_what_nsys_says(diagnostic, words, tmp_path):
    builder = TraceBuilder().range("case", 0, 9).call("cudaMalloc", 1, 2).diagnostic(diagnostic)

    sentence = explain_emptiness(read(builder.write(tmp_path / "trace.sqlite")))

    assert sentence is not None
    assert words in sentence
    assert "WSL2" not in sentence
