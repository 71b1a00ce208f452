"""What Nsight Systems, its importer and CUPTI say when something goes wrong, what it means, and what to do.

The texts are those of versions 2022.4 to 2025.3: of their programs and libraries, their logs, and reports of users.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_QUOTE_LENGTH = 200


@dataclass(frozen=True, slots=True)
class KnownError:
    """One error that Nsight Systems reports.

    Attributes:
        pattern: a regular expression that finds its text.
        meaning: a clause; {0} stands for the pattern's first group.
        remedy: what to do.
        is_loss: whether something that was to be recorded is missing from the record.
    """

    pattern: str
    meaning: str
    remedy: str
    is_loss: bool = True


_UPDATE = "update Nsight Systems"
_DOCTOR = "run `pytest-nsight doctor`"
_EXPORT_THERE = "export it with the version that recorded it, or a newer one: nsys export --type sqlite REPORT"
_END = "let the program end by itself: what kills it, or calls os._exit, keeps the last records from the file"

KNOWN_ERRORS = (
    KnownError(
        "importer binary and its dependencies were not found",
        "its importer is missing",
        f"{_DOCTOR}, which says what the installation lacks",
    ),
    KnownError(
        "Cannot find string for an exterior index",
        "its importer cannot read the NVTX strings of a library and drops what follows them",
        "measure without --nsight-user-ranges, or " + _UPDATE,
    ),
    KnownError(
        "Wrong event order has been detected",
        "its importer stops at events that are not in order of time",
        _UPDATE + ": versions before 2024.2 do so with several threads",
    ),
    KnownError(
        r"Version number is invalid: (\d+@\d+@\d+)",
        "a newer version of Nsight Systems wrote the report",
        _EXPORT_THERE,
    ),
    KnownError(
        r"[Qq]dstrm version (\S+) (?:is )?not supported|Version not supported: (\S+)|ProtobufParseException",
        "the importer is of another version than what recorded",
        f"keep one version of Nsight Systems on PATH and record again, or {_EXPORT_THERE}",
    ),
    KnownError(
        "Section Table Reference magic number mismatch",
        "the report is cut short",
        "measure again: nsys was ended while it wrote, or the disk was full",
    ),
    KnownError(
        "database is locked", "the file system has no file locks", "choose a folder on a local disk with --rootdir"
    ),
    KnownError(
        r"Insufficient space left in ([^:\n]+)",
        "there is no room in {0}",
        "make room there, or choose another --rootdir",
    ),
    KnownError(
        "Reached the size limit on recording trace events|Injection storage file .* of size limit",
        "more was recorded than its buffers hold",
        "measure fewer rounds (--nsight-rounds) or fewer tests in a session",
    ),
    KnownError(
        r"CUPTI dropped (\d+) records",
        "CUPTI dropped {0} records because they came faster than they were written",
        "measure fewer launches in a round, or fewer rounds (--nsight-rounds)",
    ),
    KnownError(
        "Couldn't allocate CUPTI buffers",
        "there was no memory for CUPTI's buffers",
        "leave some memory free, of the GPU and of the host",
    ),
    KnownError(r"Number of (?:incomplete )?CUPTI events", "the last records of the GPU are missing", _END),
    KnownError(
        "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED|MULTIPLE_SUBSCRIBERS",
        "another profiler uses CUPTI in this process, which serves one at a time",
        "take torch.profiler, proton, ncu or cupti-python out of the test",
    ),
    KnownError(
        "GPU metrics sampling hardware unit is already in use",
        "another program samples the counters of this GPU",
        "end it: dcgm (`dcgmi profile --pause`), another nsys or ncu, on the host as well",
    ),
    KnownError(
        "Concurrent GPU metrics sampling within a single MIG",
        "the counters of a GPU that is divided by MIG serve one program at a time",
        "end the other one",
    ),
    KnownError(
        "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES|ERR_NVGPUCTRPERM",
        "this user may not profile the GPU",
        "allow it with the driver's option NVreg_RestrictProfilingToAdminUsers=0",
    ),
    KnownError(
        r"(\S+) profiling might have not been started correctly",
        "it could not attach to {0}",
        f"remove other profilers from the test, and {_DOCTOR}",
    ),
    KnownError(r"Not all (\S+) events might have been collected", "the last {0} records are missing", _END),
    KnownError(
        r"No (\S+) events collected",
        "it saw nothing of {0}",
        f"check that the test uses it, and {_DOCTOR}",
        is_loss=False,
    ),
    KnownError(
        r"Installed CUDA driver version \((\S+)\) is not supported by this build",
        "the driver, {0}, is newer than this version of Nsight Systems",
        _UPDATE,
        is_loss=False,
    ),
    KnownError("unrecognised option '([^']*)'", "it does not know the option {0}", "install another version"),
    KnownError(
        "^Program not found: (.*)$|^Executable '(.*)' not found|: exec: (.*): not found$",
        "it cannot find the program {0}",
        "check PATH",
    ),
    KnownError(
        "Agent launcher failed|filesystem_error|Invalid truncate size",
        "it cannot work in its folder",
        "choose a folder with --rootdir that can be written to and has room; if it has, and no nsys runs, remove "
        "what a killed one has left: /dev/shm/NSys-*, quadd-* and sem.nsys_* there",
    ),
    # The general ones come last: they say only that there is a particular one.
    KnownError(
        "Errors occurred while processing the raw events|succeeded with non-fatal errors",
        "its importer left out what it could not read",
        f"{_UPDATE}, and measure without --nsight-user-ranges",
    ),
    KnownError("Importer error|Import Failed", "its importer failed", f"{_DOCTOR}, which tries the importer"),
)

NEWER_REPORT = KnownError(
    "ProtobufParseException",
    "the report is newer than this version of Nsight Systems reads",
    f"{_EXPORT_THERE}; show reads the .sqlite file",
)
"""What the same words mean of a report that is there: an import fails where two versions meet."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that Nsight Systems reported.

    Attributes:
        quote: its words, on one line.
        meaning: a clause, "" where the words are not known.
        remedy: what to do, "" where the words are not known.
        is_loss: whether something that was to be recorded is missing.
    """

    quote: str
    meaning: str = ""
    remedy: str = ""
    is_loss: bool = False

    @property
    def sentence(self) -> str:
        """All of it as one sentence, without its full stop."""
        said = f'Nsight Systems says "{self.quote}"'
        return f"{said}: {self.meaning}; {self.remedy}" if self.meaning else said


def recognise(text: str, *first: KnownError) -> Complaint | None:
    """The first known error in a text, particular ones before general ones; None if there is none.

    Args:
        text: lines of a log, or one diagnostic.
        first: errors that come before all others where the text is about something particular.
    """
    for known in (*first, *KNOWN_ERRORS):
        if match := re.search(known.pattern, text, re.MULTILINE):
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            groups = [group for group in match.groups() if group is not None]
            meaning = known.meaning.replace("{0}", groups[0] if groups else "")
            return Complaint(
                quote(text[start : end if end >= 0 else len(text)]), meaning, known.remedy, known.is_loss
            )
    return None


def recognise_all(texts: Iterable[str]) -> tuple[Complaint, ...]:
    """One complaint for each text, in order; what is not known is quoted.

    Args:
        texts: diagnostics of an export.
    """
    return tuple(recognise(text) or Complaint(quote(text)) for text in texts)


def quote(line: str) -> str:
    """A line of a log, fit for a message: without what it has only for a terminal, and not too long."""
    words = "".join(letter if letter.isprintable() else " " for letter in line.rsplit("\r", 1)[-1]).split()
    text = " ".join(words).strip("* ").replace('"', "'").rstrip(".")
    return text if len(text) <= _QUOTE_LENGTH else text[: _QUOTE_LENGTH - 3] + "..."


def own_output(log: str) -> str:
    """What nsys itself wrote to a log that it shares with the worker: all that follows the worker's end.

    Args:
        log: the whole text.
    """
    return log[max(0, log.rfind("Generating '")) :]
