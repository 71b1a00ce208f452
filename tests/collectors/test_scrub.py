"""What leaves the machine: the trace, without anything that shows whose it is."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from pytest_nsight.collectors.nsys.scrub import pack, scrub
from pytest_nsight.model.errors import TraceError
from pytest_nsight.processes.regular_files import unpack_xz
from tests.collectors.real import environment, record

# Two sessions of nsys 2022.4 that start at one moment can end each other.
pytestmark = [pytest.mark.xdist_group("nsys"), pytest.mark.slow]

ENVIRONMENT_SECRET = "hunter2-in-the-environment"
ARGUMENT_SECRET = "swordfish-on-the-command-line"
OUTPUT_SECRET = "told-on-stdout"
CODE = f"""
from pytest_nsight.recorders.nvtx.ranges import emitter, within
target = emitter()
for i in range(3):
    with within(target, "round", 100 + i), within(target, "part ☃", 200 + i): pass
print({OUTPUT_SECRET!r}.swapcase().swapcase())
"""


@pytest.fixture(scope="module")
def original(installation, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scrub-folder")
    environ = environment(API_TOKEN=ENVIRONMENT_SECRET)
    return record(installation, folder, CODE, environ, [ARGUMENT_SECRET])


@pytest.fixture(scope="module")
def scrubbed(original):
    target = original.with_name("scrubbed.sqlite")
    scrub(original, target)
    return target


def query(path, sql):
    with closing(sqlite3.connect(path)) as database:
        return database.execute(sql).fetchall()


@pytest.mark.slow
def test_the_export_holds_the_secrets(original):
    """Otherwise their absence below would prove nothing. (2022.4 leaves arguments out, later ones do not.)"""
    for secret in (ENVIRONMENT_SECRET, "scrub-folder", OUTPUT_SECRET):
        assert secret.encode() in original.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "secret",
    [
        ENVIRONMENT_SECRET,
        "API_TOKEN",
        ARGUMENT_SECRET,
        OUTPUT_SECRET,
        "scrub-folder",
        "PYTHONPATH",
        "/usr/",
        "python",
        "nsys-rep",
        "EXPORT_HOST",
    ],
)
def test_no_byte_of_a_secret_survives(secret, scrubbed):
    content = scrubbed.read_bytes()

    for encoding in ("utf-8", "utf-16-le"):
        assert secret.encode(encoding) not in content


def test_the_ranges_survive_unchanged(original, scrubbed):
    sql = """
        select start, end, eventType, globalTid, domainId, int64Value,
               coalesce(text, (select value from StringIds where id = textId))
        from NVTX_EVENTS where eventType in (59, 75) order by start, end
    """

    assert query(scrubbed, sql) == query(original, sql)
    names = [row[-1] for row in query(scrubbed, sql) if row[2] == 59]
    assert names == ["round", "part ☃"] * 3


def test_the_version_and_the_start_of_the_session_survive(original, scrubbed):
    for sql in (
        "select utcEpochNs from TARGET_INFO_SESSION_START_TIME",
        "select value from EXPORT_META_DATA where name = 'EXPORT_SCHEMA_VERSION'"
        if query(original, "select 1 from sqlite_master where name = 'EXPORT_META_DATA'")
        else "select value from META_DATA_EXPORT where name = 'EXPORT_SCHEMA_VERSION'",
    ):
        assert query(scrubbed, sql) == query(original, sql) != []


def test_of_all_strings_only_used_ones_are_left(original, scrubbed):
    assert query(scrubbed, "select count(*) from StringIds") < query(original, "select count(*) from StringIds")
    assert query(scrubbed, "select count(*) from StringIds where id not in (select textId from NVTX_EVENTS)") == [
        (0,)
    ]


@pytest.fixture
def written(tmp_path):
    """An export as later versions write it, with a secret in every place that is not for us."""
    path = tmp_path / "later.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(r"""
            create table META_DATA_EXPORT (name text, value text);
            insert into META_DATA_EXPORT values ('EXPORT_SCHEMA_VERSION', '3.28.1'),
                ('EXPORT_PARAM_INPUT_FILE', 'SECRET'), ('EXPORT_HOST', 'SECRET'), ('EXPORT_ARCH', 'x64');
            create table META_DATA_CAPTURE (name text, value text);
            insert into META_DATA_CAPTURE values ('PROCESS_0:ENVIRONMENT_VARIABLE', 'SECRET');
            create table StringIds (id integer, value text);
            insert into StringIds values (1, 'kernel<float>'), (2, 'SECRET'), (3, 'cudaLaunchKernel'),
                (4, 'kernel'), (5, 'forward'), (6, 'SECRET/thread'), (7, 'step(int)'),
                (8, '/home/SECRET/train.so'), (9, 'C:\SECRET\app.exe'), (10, 'SECRET!0x7f00');
            create table NVTX_EVENTS (eventId integer primary key, start integer, end integer,
                eventType integer, textId integer, jsonText text, binaryData blob, globalTid integer);
            insert into NVTX_EVENTS values (1, 10, 20, 59, 5, 'SECRET', x'534543524554', 16777217),
                (2, 0, 0, 39, 6, null, null, 16777217);
            create table CUPTI_ACTIVITY_KIND_KERNEL (start integer not null, end integer not null,
                globalPid integer, correlationId integer, demangledName integer, shortName integer,
                gridX integer, somethingNew text);
            insert into CUPTI_ACTIVITY_KIND_KERNEL values (30, 40, 16777216, 7, 1, 4, 128, 'SECRET');
            create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, globalTid integer,
                correlationId integer, nameId integer, callchainId integer);
            insert into CUPTI_ACTIVITY_KIND_RUNTIME values (12, 13, 16777217, 7, 3, 99);
            create table CUDA_CALLCHAINS (id integer, symbol integer, module integer, unresolved integer,
                originalIP integer, stackDepth integer);
            insert into CUDA_CALLCHAINS values (99, 7, 8, null, 1234, 0), (99, 10, 9, 1, 1234, 1);
            create table DIAGNOSTIC_EVENT (timestamp integer, severity integer, text text);
            insert into DIAGNOSTIC_EVENT values (1, 2, 'ID 260 != 259: not all might have been collected.'),
                (4, 1, 'Cannot find "SECRET"'), (5, 1, 'See C:\SECRET'), (6, 1, 'Connected to root@SECRET'),
                (2, 1, 'Log written to /home/SECRET/log'), (3, 1, 'Launched with TOKEN=SECRET');
            create table PROCESSES (globalPid integer, pid integer, name text);
            insert into PROCESSES values (16777216, 1, 'SECRET'), (33554432, 2, 'SECRET');
            create table TARGET_INFO_SYSTEM_ENV (name text, value text);
            insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', 'SECRET');
            create table TARGET_INFO_GPU (id integer, name text, uuid text, ctrlDevPath text);
            insert into TARGET_INFO_GPU values (0, 'NVIDIA H200', '9ad5', 'SECRET');
        """)
    return path


def test_only_listed_tables_columns_and_rows_are_copied(written, tmp_path):
    target = tmp_path / "scrubbed.sqlite"
    scrub(written, target)

    assert b"SECRET" not in target.read_bytes()
    tables = {name for (name,) in query(target, "select name from sqlite_master where type = 'table'")}
    assert {table: query(target, f"select * from {table} order by 1") for table in tables} == {
        "META_DATA_EXPORT": [("EXPORT_ARCH", "x64"), ("EXPORT_SCHEMA_VERSION", "3.28.1")],
        "NVTX_EVENTS": [(1, 10, 20, 59, 16777217, 5, None)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [(30, 40, 16777216, 7, 1, 4, 128)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [(12, 13, 16777217, 7, 3, 99)],
        "CUDA_CALLCHAINS": [(99, 7, 8, None, 0), (99, 10, 9, 1, 1)],
        "DIAGNOSTIC_EVENT": [(1, 2, "ID 260 != 259: not all might have been collected.")],
        "PROCESSES": [(16777216, 1)],
        "TARGET_INFO_GPU": [(0, "NVIDIA H200", "9ad5")],
        "StringIds": [
            (1, "kernel<float>"),
            (3, "cudaLaunchKernel"),
            (4, "kernel"),
            (5, "forward"),
            (7, "step(int)"),
            (8, "train.so"),
            (9, "app.exe"),
        ],
    }


def test_scrubbing_does_not_touch_the_source_and_replaces_the_target(written, tmp_path):
    before = written.read_bytes()
    target = tmp_path / "target.sqlite"
    target.write_bytes(b"older")
    scrub(written, target)
    scrub(target, tmp_path / "again.sqlite")

    assert written.read_bytes() == before
    assert target.read_bytes() == (tmp_path / "again.sqlite").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "again.sqlite",
        "later.sqlite",
        "target.sqlite",
    ]


@pytest.mark.parametrize("content", [None, b"", b"no database at all" * 100])
def test_what_is_no_export_is_refused_and_leaves_nothing(content, tmp_path):
    source = tmp_path / "source.sqlite"
    if content is not None:
        source.write_bytes(content)

    with pytest.raises(TraceError, match=rf"Cannot scrub {source} into|{source} cannot be read"):
        scrub(source, tmp_path / "target.sqlite")

    assert list(tmp_path.iterdir()) == ([source] if content is not None else [])


def test_packing_is_small_and_loses_nothing(scrubbed, tmp_path):
    pack(scrubbed, tmp_path / "r.sqlite.xz")
    unpack_xz(tmp_path / "r.sqlite.xz", tmp_path / "r.sqlite")

    assert (tmp_path / "r.sqlite").read_bytes() == scrubbed.read_bytes()
    assert (tmp_path / "r.sqlite.xz").stat().st_size < scrubbed.stat().st_size / 4


def test_a_damaged_recording_is_refused_and_leaves_nothing(scrubbed, tmp_path):
    packed = tmp_path / "r.sqlite.xz"
    pack(scrubbed, packed)
    packed.write_bytes(packed.read_bytes()[:-20])

    with pytest.raises(
        TraceError, match=r"Cannot unpack .*r\.sqlite\.xz, which is cut short .*; copy it here again"
    ):
        unpack_xz(packed, tmp_path / "r.sqlite")

    assert not (tmp_path / "r.sqlite").exists()
