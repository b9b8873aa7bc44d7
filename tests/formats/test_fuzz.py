"""Whatever the bytes, a reader gives workloads or one line of error: no traceback, no hang, no silent loss."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagsched.errors import DagschedError, FormatError
from dagsched.formats import load, readers
from tests.data import data_files, data_id, needs_data
from tests.formats.samples import SAMPLES, write
from tests.fuzz import fuzz, targets

FUZZ = settings(max_examples=60, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
FORMATS = ("wfformat", "psplib", "stg", "alibaba-2018", "tpch-batch", "dagsched")


def outcome(path: Path, **options: object) -> int | str:
    """Task count, or the error: which must be one printable line that names the file."""
    try:
        return sum(workload.task_count for workload in load(path, **options))
    except DagschedError as error:
        problem = error
    assert str(problem).isprintable()
    assert path.name in str(problem) or not isinstance(problem, FormatError)
    return str(problem)


def test_every_sample_loads(tmp_path: Path) -> None:
    assert tuple(sorted(readers())) == tuple(sorted(FORMATS))
    for name in SAMPLES:
        assert isinstance(outcome(write(tmp_path, name)), int), name


@FUZZ
@given(data=st.binary(max_size=300), name=st.sampled_from((None, *FORMATS)))
def test_random_bytes_are_refused(tmp_path: Path, data: bytes, name: str | None) -> None:
    assert isinstance(outcome(write(tmp_path, "x", data), format=name), str)


@FUZZ
@given(data=st.binary(max_size=200), name=st.sampled_from(FORMATS))
def test_random_bytes_after_a_gzip_mark_are_refused(tmp_path: Path, data: bytes, name: str) -> None:
    assert isinstance(outcome(write(tmp_path, "x.gz", b"\x1f\x8b\x08" + data), format=name), str)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.just(10**400)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def paths_into(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, inner in items for deeper in paths_into(inner, (*path, key)))]


@settings(FUZZ, max_examples=400)
@given(data=st.data())
def test_any_json_value_anywhere_gives_a_result_or_one_line(tmp_path: Path, data: st.DataObject) -> None:
    import json

    name = data.draw(st.sampled_from(["hand.jsonl", "hand13.json", "hand15.json", "own.json"]))
    document = json.loads(SAMPLES[name])
    path = data.draw(st.sampled_from(paths_into(document)[1:]))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = data.draw(json_values)
    form = {"hand.jsonl": "tpch-batch", "own.json": "dagsched"}.get(name, "wfformat")
    outcome(write(tmp_path, name, json.dumps(document)), format=form)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    content = SAMPLES[name].encode()
    whole = outcome(write(tmp_path, name))
    last = len(content.rstrip()) if name != "hand.stg" else content.index(b"#") - 1  # then only remarks are lost
    boundaries = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")] if name == "hand.csv" else []
    form = "psplib" if name == "hand.sm" else None
    step = 3 if name == "hand.sm" else 1
    for length in sorted({*range(0, last, step), *range(max(0, last - 100), last)}):
        result = outcome(write(tmp_path, name, content[:length]), format=form)
        assert isinstance(result, str) or length in boundaries, (length, result, whole)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_a_gzip_file_cut_anywhere_is_refused(tmp_path: Path, name: str) -> None:
    packed = gzip.compress(SAMPLES[name].encode())
    assert outcome(write(tmp_path, name + ".gz", packed)) == outcome(write(tmp_path, name))
    for length in range(0, len(packed), 3):
        assert isinstance(outcome(write(tmp_path, name + ".gz", packed[:length])), str), length


@pytest.mark.parametrize("name", sorted(targets()))
def test_a_hundred_mutations_of_every_kind_of_file_give_a_result_or_one_line(tmp_path: Path, name: str) -> None:
    found = fuzz(name, 100, tmp_path, seed=1)
    assert found.failures == []
    assert found.counts["refused"] > 40


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(targets()))
def test_five_thousand_mutations_of_every_kind_of_file_give_a_result_or_one_line(tmp_path: Path, name: str) -> None:
    found = fuzz(name, 5000, tmp_path)
    assert found.failures == []


def mutated(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    kind = rng.randrange(6)
    if kind == 0:
        return content[: rng.randrange(len(content))]
    if kind == 1:
        rng.shuffle(lines)
    elif kind == 2:
        lines.pop(rng.randrange(len(lines)))
    elif kind == 3:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    elif kind == 4:
        i, j = rng.randrange(len(content)), rng.randrange(len(content))
        return content[: min(i, j)] + content[max(i, j) :]
    else:
        out = bytearray(content)
        for _ in range(rng.randrange(1, 8)):
            out[rng.randrange(len(out))] = rng.choice(b'0123456789-.,:;{}[]"eEn \n\x00\xff')
        return bytes(out)
    return b"\n".join(lines)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_damaged_samples_give_a_result_or_one_line(tmp_path: Path, name: str) -> None:
    rng = random.Random(name)
    for _ in range(150):
        outcome(write(tmp_path, name, mutated(SAMPLES[name].encode(), rng)))


REAL = data_files(
    "psplib/j30/j3010_1.sm",
    "psplib/j120/j12010_1.sm",
    "stg/50/rand0000.stg",
    "stg/application/robot",
    "wfinstances/1.0/srasearch*.json",
    "wfinstances/1.4/bacass*.json",
    "wfinstances/1.5/srasearch-chameleon-10a-001.json",
    "wfinstances/1.5/helloworld*.json",
    "alibaba-2018/batch_task_50jobs.csv",
)


@needs_data
@pytest.mark.parametrize("file", REAL, ids=data_id)
def test_damaged_real_files_give_a_result_or_one_line(tmp_path: Path, file: Path) -> None:
    rng = random.Random(file.name)
    content = file.read_bytes()
    for _ in range(25):
        outcome(write(tmp_path, file.name, mutated(content, rng)))


@needs_data
@pytest.mark.parametrize("file", [f for f in REAL if f.suffix in (".sm", ".json")], ids=data_id)
def test_real_files_cut_anywhere_are_refused(tmp_path: Path, file: Path) -> None:
    content = file.read_bytes().rstrip()
    for length in random.Random(file.name).sample(range(len(content)), 40):
        assert isinstance(outcome(write(tmp_path, file.name, content[:length])), str), length


@needs_data
@pytest.mark.parametrize("file", data_files("stg/application/robot", "stg/50/rand0006.stg"), ids=data_id)
def test_task_graphs_cut_in_their_rows_are_refused(tmp_path: Path, file: Path) -> None:
    rows = file.read_bytes().split(b"#")[0].rstrip()
    for length in random.Random(file.name).sample(range(len(rows)), 150):
        assert isinstance(outcome(write(tmp_path, file.name, rows[:length])), str), length


@needs_data
def test_a_batch_problem_file_cut_in_its_last_line_is_refused(tmp_path: Path) -> None:
    content = data_files("tpch-batch/tpch-50.jsonl")[0].read_bytes().rstrip()
    for length in (len(content) - 1, len(content) - 1000, content.rindex(b"\n") + 500):
        assert "line 10" in str(outcome(write(tmp_path, "x.jsonl", content[:length])))
