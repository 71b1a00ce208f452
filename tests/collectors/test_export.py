"""What is left of a run: the report, the reasons for having none, and the database made of it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing

import pytest

from pytest_nsight.collectors.nsys.export import export, find_report
from pytest_nsight.collectors.nsys.find import Installation
from pytest_nsight.collectors.nsys.profiling import profile, profile_command
from pytest_nsight.model.errors import NsysError
from tests.collectors.real import environment, run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("nsys")]


@pytest.fixture
def after(fake, tmp_path):
    """Runs the fake nsys in a failure mode and looks for the report."""

    def look(mode, **more):
        environ = environment(NSYS_FAKE=mode, **more)
        report, log = tmp_path / "out" / "r.nsys-rep", tmp_path / "r.log"
        with profile(fake, report, ("true",), log=log, cwd=tmp_path, environ=environ) as process:
            process.wait(60)
        return find_report(report, log)

    return look


def test_the_report_is_where_it_should_be(after, tmp_path):
    assert after("fine") == tmp_path / "out" / "r.nsys-rep"


def test_a_report_that_went_to_the_temporary_folder_is_found(after, tmp_path):
    """nsys goes there, with exit code 0, where it cannot write to the wanted place: the same folder here."""
    assert after("elsewhere") == tmp_path / "out" / "nsys-report-c47c.nsys-rep"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("no-importer", ["its importer is missing", "dependencies were not found", "pytest-nsight doctor"]),
        ("importer-fails", ["its importer failed", "Importation failed", "pytest-nsight doctor"]),
        ("disk-full", ["the disk is full", "/out; make room there, or choose another folder with --rootdir"]),
        ("unusable", ["cannot work in its folder", "Agent launcher failed", "--rootdir"]),
        ("nothing", ["its output ends with \"Generating '", "run it again"]),
    ],
)
def test_without_a_report_one_sentence_says_why_where_and_what_to_do(mode, words, after, tmp_path):
    with pytest.raises(NsysError) as caught:
        after(mode)

    message = str(caught.value)
    assert message.startswith(f"Nsight Systems wrote no report to {tmp_path}/out/r.nsys-rep: ")
    assert message.endswith(f"; its output is in {tmp_path}/r.log.")
    assert [word for word in words if word not in message] == []
    assert "\n" not in message


def test_the_importers_own_words_are_quoted(tmp_path):
    """As Nsight Systems 2025.3.1 printed them on an H100, once in some hundred processes."""
    report, log = tmp_path / "r.nsys-rep", tmp_path / "r.log"
    log.write_text(
        "Collecting data...\nGenerating '/x.qdstrm'\nImporter error status: Importation failed.\n"
        "Import Failed with unexpected exception: main.cpp(35): Throw in function Importer::Importer()\n"
        "[QuadDCommon::tag_message*] = Status: AnalysisFailed\nError {\n  SubError {\n      Items {\n"
        '        Type: ErrorText\n        Value: "Multiple different definitions of the same VmTidToPidInfo"\n'
        "      }\n  }\n}\nGenerated:\n\t/x.qdstrm\n"
    )

    with pytest.raises(NsysError, match=r'its importer failed \("Multiple different definitions of the same VmTid'):
        find_report(report, log)


def test_refused_options_and_missing_programs_are_named(tmp_path):
    report, log = tmp_path / "r.nsys-rep", tmp_path / "r.log"
    log.write_text("unrecognised option '--new=1'\n\nusage: nsys profile [<args>]\n")
    with pytest.raises(NsysError, match=r"does not know the option --new=1 .*; install another version"):
        find_report(report, log)
    log.write_text("Program not found: pyhton\n")
    with pytest.raises(NsysError, match=r"cannot find the program pyhton .*; check PATH"):
        find_report(report, log)
    log.unlink()
    with pytest.raises(NsysError, match=r"its output ends with 'it said nothing'"):
        find_report(report, log)


def test_braces_in_what_nsys_says_do_no_harm(tmp_path):
    (tmp_path / "r.log").write_text("Program not found: {0}{temporary}\n")

    with pytest.raises(NsysError, match=r"cannot find the program \{0\}\{temporary\} "):
        find_report(tmp_path / "r.nsys-rep", tmp_path / "r.log")


@pytest.mark.parametrize("mode", ["export-fails", "export-zeroes"])
def test_a_failed_export_leaves_no_database(mode, fake, tmp_path):
    """Neither half of one, nor zeroes; and what was there before stays."""
    sqlite = tmp_path / "r.sqlite"
    sqlite.write_bytes(b"older")

    with pytest.raises(NsysError, match=rf"2025.3.2.0 could not export {tmp_path}/r.nsys-rep .*r.export.log"):
        export(fake, tmp_path / "r.nsys-rep", sqlite, environment(NSYS_FAKE=mode))

    assert sqlite.read_bytes() == b"older"
    assert [path.name for path in tmp_path.glob("*.part*")] == []


def test_a_report_of_a_newer_nsys_is_called_that(tmp_path):
    """What nsys 2022.4 says of a report of 2023; the same words of an import mean two versions on PATH."""
    said = "Dynamic exception type: boost::wrapexcept<QuadDCommon::ProtobufParseException>"
    nsys = tmp_path / "nsys"
    nsys.write_text(f"#!/bin/sh\necho '{said}'\nexit 1\n")
    nsys.chmod(0o755)
    (tmp_path / "r.nsys-rep").write_bytes(b"report")
    with pytest.raises(NsysError) as caught:
        export(Installation(nsys, (2022, 4, 2, 1)), tmp_path / "r.nsys-rep", tmp_path / "r.sqlite", os.environ)

    assert "the report is newer than this version of Nsight Systems reads" in str(caught.value)
    assert "nsys export --type sqlite" in str(caught.value)
    assert "record again" not in str(caught.value)
    (tmp_path / "r.log").write_text(said)
    with pytest.raises(NsysError, match="keep one version of Nsight Systems on PATH"):
        find_report(tmp_path / "missing.nsys-rep", tmp_path / "r.log")


@pytest.mark.parametrize(
    ("help_text", "is_asked"), [("    --include-blobs [true|false]", True), ("    --lazy=", False)]
)
def test_payloads_are_asked_of_a_version_that_knows_them(help_text, is_asked, tmp_path):
    nsys = tmp_path / "nsys"
    nsys.write_text(
        f"#!/bin/sh\n[ $2 = --help ] && echo '{help_text}' && exit 0\necho \"$@\" >{tmp_path}/asked\nexit 1\n"
    )
    nsys.chmod(0o755)
    (tmp_path / "r.nsys-rep").write_bytes(b"report")
    report, sqlite = tmp_path / "r.nsys-rep", tmp_path / "r.sqlite"
    with pytest.raises(NsysError, match="could not export"):
        export(Installation(nsys, (2025, 3)), report, sqlite, os.environ, with_payloads=True)

    assert ("--include-blobs=true" in (tmp_path / "asked").read_text()) == is_asked


def test_an_export_replaces_an_older_one_and_leaves_nothing_else(fake, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "r.sqlite").write_bytes(b"older")
    (folder / "r.log").write_text("of the worker")

    export(fake, folder / "r.nsys-rep", folder / "r.sqlite", environment(NSYS_FAKE="fine"))

    assert (folder / "r.sqlite").read_bytes().startswith(b"SQLite format 3\0")
    assert sorted(path.name for path in folder.iterdir()) == ["r.log", "r.sqlite"]


def test_a_damaged_report_is_refused_in_the_words_of_the_real_nsys(installation, tmp_path):
    (tmp_path / "r.nsys-rep").write_bytes(b"no report" * 100)

    with pytest.raises(NsysError, match=r"could not export .* \(exit code 1\): .*; measure again"):
        export(installation, tmp_path / "r.nsys-rep", tmp_path / "r.sqlite", os.environ)


def test_a_real_report_becomes_a_database(installation, tmp_path):
    run(installation, tmp_path, "pass")
    report = find_report(tmp_path / "r.nsys-rep", tmp_path / "r.log")

    export(installation, report, tmp_path / "r.sqlite", os.environ)

    with closing(sqlite3.connect(tmp_path / "r.sqlite")) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
        assert database.execute("select count(*) from StringIds").fetchone()[0] > 0


def test_a_really_full_disk_is_told(installation, tmp_path):
    """On a file system of 64 kB, behind the check of the free space."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", small], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a tmpfs here; the fake nsys stands in for it")
    try:
        report, log = small / "r.nsys-rep", tmp_path / "r.log"
        command = profile_command(installation, report, ("true",))
        environ = environment(TMPDIR=str(tmp_path))
        log.write_bytes(subprocess.run(command, env=environ, capture_output=True, check=False).stderr)
        with pytest.raises(NsysError, match=rf"the disk is full at {small}.*make room there"):
            find_report(report, log)
    finally:
        subprocess.run(["umount", small], check=True)
