"""The front door: recognising formats, directories, hostile files; and every real file of these formats."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest

from dagsched.errors import ConfigError, FormatError
from dagsched.formats import load, scan
from dagsched.formats import source as source_module
from dagsched.replay import Replay
from tests.data import data_files, data_id, needs_data
from tests.formats.samples import ALIBABA, OWN, PSPLIB, SAMPLES, STG, TPCH, write

FORMAT_OF = {
    "hand.sm": "psplib",
    "hand.stg": "stg",
    "hand.csv": "alibaba-2018",
    "hand.jsonl": "tpch-batch",
    "hand13.json": "wfformat",
    "hand15.json": "wfformat",
    "own.json": "dagsched",
}


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("dress", ["plain", "renamed", "bom", "crlf", "gzip"])
def test_formats_are_recognised_by_content(tmp_path: Path, name: str, dress: str) -> None:
    content = SAMPLES[name].encode()
    content = {"bom": b"\xef\xbb\xbf" + content, "crlf": content.replace(b"\n", b"\r\n")}.get(dress, content)
    content = gzip.compress(content) if dress == "gzip" else content
    path = write(tmp_path, "renamed" if dress in ("renamed", "gzip") else name, content)
    ((file, form),) = scan(path).files
    assert (file, form) == (path, FORMAT_OF[name])
    assert load(path)[0].task_count == load(write(tmp_path, "plain-" + name, SAMPLES[name]))[0].task_count


def test_a_directory_is_read_in_natural_order_and_says_what_it_skips(tmp_path: Path) -> None:
    for name, content in (("j10.sm", PSPLIB), ("j2.sm", PSPLIB), ("README.md", "# x\n"), ("sub/own.json", OWN)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path, name, content)
    write(tmp_path, ".hidden.sm", PSPLIB)
    os.mkfifo(tmp_path / "pipe")
    found = scan(tmp_path)
    assert [file.name for file, _ in found.files] == ["j2.sm", "j10.sm", "own.json"]
    assert {skip.path.name: skip.reason for skip in found.skipped} == {
        "README.md": "no known workload format",
        "pipe": "is not a regular file; give a file or a directory of files",
    }
    assert [workload.name for workload in load(tmp_path)] == ["j2", "j10", "hand"]
    assert [workload.name for workload in load(tmp_path, format="dagsched")] == ["hand"]


def test_repeated_names_get_their_folder_then_a_number(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, "x.stg", STG)
    write(tmp_path / "a", "x.stg.gz", gzip.compress(STG.encode()))
    workloads = load(tmp_path)
    assert [workload.name for workload in workloads] == ["a/x", "a/x#2", "b/x"]
    assert [workload.workflows[0].name for workload in workloads] == ["a/x", "a/x#2", "b/x"]


def test_a_damaged_file_in_a_directory_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "good.sm", PSPLIB)
    write(tmp_path, "bad.sm", PSPLIB[:-200])
    with pytest.raises(FormatError, match=r"bad.sm"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"hello", "is in no known workload format; expected one of dagsched, tpch-batch"),
        (b'{"schemaVersion": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"schemaVersion": ' + b"9" * 5000 + b"}", "is not valid JSON"),
        (b'{"schemaVersion": "\xff"}', r"is not UTF-8 text \(byte 19\)"),
        (b'{"schemaVersion": "\\ud800"}', "half of a surrogate pair"),
        (b'{"schemaVersion": NaN}', "NaN is not a JSON number"),
        (b'{"schemaVersion": "1.5", "schemaVersion": "1.5"}', "key 'schemaVersion' appears twice"),
        (b'{"schemaVersion": "1.5"', "is not valid JSON: Expecting"),
        (b"\x1f\x8b\x08\x00", "is damaged or cut off"),
    ],
)
def test_hopeless_files_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load(write(tmp_path, "x.json", content))


def test_places_that_are_no_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "none.sm", "cannot be read: No such file"),
        (tmp_path / "pipe", "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "nul\0byte", "cannot be read: embedded null byte"),
    ):
        with pytest.raises(FormatError, match=message):
            load(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FormatError, match="holds no files"):
        load(tmp_path / "empty")
    write(tmp_path / "empty", "README", "x")
    with pytest.raises(FormatError, match="holds 1 files, none recognised"):
        load(tmp_path / "empty")


def test_unknown_format_names_get_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"format 'psplip' is not known; did you mean 'psplib'\?"):
        load(write(tmp_path, "hand.sm"), format="psplip")


def test_large_and_exploding_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = gzip.compress((ALIBABA.split("\n")[0] + "\n").encode() * 600_000)
    with pytest.raises(FormatError, match="expands more than 250-fold"):
        load(write(tmp_path, "bomb.csv.gz", rows))
    with pytest.raises(FormatError, match=r"line 2: is longer than 1048576 bytes"):
        load(write(tmp_path, "long.csv", ALIBABA.split("\n")[0].encode() + b"\n" + b"x" * 2**21))
    with pytest.raises(FormatError, match="is larger than 32 MiB when unpacked"):
        load(write(tmp_path, "bomb.sm.gz", gzip.compress(PSPLIB.encode() + b" " * 2**26)))
    monkeypatch.setattr(source_module.Source.read, "__defaults__", (1000,))
    with pytest.raises(FormatError, match="is larger than 0 MiB"):
        load(write(tmp_path, "many.jsonl", TPCH * 9))


REFUSED = {
    r"wfinstances/1\.3/rnaseq.*": "contains a cycle",
    r"wfinstances/schema/.*": "no known workload format",
    r"psplib/[^/]*\.sm": "table of known makespans",
    r"psplib/schedules/.*": "no known workload format",
    r"stg/optimum/.*": "table of known makespans",
    r"alibaba-2018/.*_measured\.csv": "no known workload format",
    r"alibaba-2018/doc-.*": "no known workload format",
    r"tpch-batch/README\.md": "no known workload format",
}
"""Every real file that must not load, with the documented reason."""

EVERY_FILE = data_files("wfinstances/**/*", "psplib/**/*", "stg/**/*", "alibaba-2018/*", "tpch-batch/*")


@needs_data
@pytest.mark.parametrize("file", EVERY_FILE, ids=data_id)
def test_every_real_file_loads_or_is_refused_for_a_documented_reason(file: Path) -> None:
    reason = next((why for pattern, why in REFUSED.items() if re.fullmatch(pattern, data_id(file))), None)
    if reason is not None:
        with pytest.raises(FormatError, match=reason):
            load(file)
        return
    for workload in load(file):
        assert workload.task_count > 0
        if workload.task_count < 5000:
            Replay.build(workload)  # every task fits the workload's own or the default cluster
