"""Checkpoints from strangers: damaged, oversized or hostile files are refused in one line that names the folder."""

from __future__ import annotations

import json
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dagsched.errors import CheckpointError, DagschedError
from dagsched.generate.tpch import Profiles
from dagsched.models.checkpoint import FILES, load_checkpoint, save_checkpoint
from dagsched.models.folder import MOST_JSON_BYTES
from dagsched.models.index import INDEX, read_index
from tests.fuzz import DAMAGES
from tests.learn.test_checkpoint import made


def checkpoint(folder: Path) -> Path:
    save_checkpoint(folder, made())
    return folder


def refused(folder: Path) -> str:
    """The error of loading a folder; nothing if it loads."""
    problem = error_of(lambda: load_checkpoint(folder))
    assert not problem or folder.name in problem
    return problem


def error_of(call: Callable[[], object]) -> str:
    """The one short line of error that a call gives; nothing if it gives none."""
    try:
        call()
    except DagschedError as error:
        problem = str(error)
    else:
        return ""
    assert problem.isprintable()
    assert 0 < len(problem) < 3000
    return problem


def damaged(content: bytes, rng: random.Random) -> bytes:
    text = content.decode("latin-1")
    return rng.choice(DAMAGES)(text, rng, text)


def mutate(folder: Path, count: int, seed: int) -> int:
    """How many of ``count`` damaged checkpoints loaded: those whose content is still the same."""
    good = {name: (folder / name).read_bytes() for name in FILES}
    digest = load_checkpoint(folder).digest
    rng = random.Random(seed)
    loaded = 0
    for _ in range(count):
        name = rng.choice(FILES)
        (folder / name).write_bytes(damaged(good[name], rng))
        if not refused(folder):
            assert load_checkpoint(folder).digest == digest
            loaded += 1
        (folder / name).write_bytes(good[name])
    return loaded


def test_damaged_checkpoints_are_refused_in_one_line_or_the_same(tmp_path: Path) -> None:
    assert mutate(checkpoint(tmp_path / "best"), 120, 1) < 40


@pytest.mark.slow
def test_five_thousand_damaged_checkpoints_are_refused_in_one_line_or_the_same(tmp_path: Path) -> None:
    assert mutate(checkpoint(tmp_path / "best"), 5000, 2) < 2000


def test_damaged_indexes_are_refused_in_one_line(tmp_path: Path) -> None:
    good = Path("checkpoints/default/index.json").read_bytes()
    rng = random.Random(3)
    for _ in range(300):
        (tmp_path / INDEX).write_bytes(damaged(good, rng))
        problem = error_of(lambda: read_index(tmp_path))
        assert not problem or INDEX in problem


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_oversized_and_deep_json_is_refused(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path / "best")
    good = (folder / name).read_bytes()
    (folder / name).write_bytes(good + b" " * MOST_JSON_BYTES)
    assert f"{name}: not a regular file of at most 4,194,304 bytes" in refused(folder)
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"\xff", b""):
        (folder / name).write_bytes(text)
        assert name in refused(folder)
    (folder / name).write_bytes(good)
    assert refused(folder) == ""


def test_an_oversized_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(b" " * (MOST_JSON_BYTES + 1))
    with pytest.raises(CheckpointError, match=r"index.json: not a regular file of at most 4,194,304 bytes"):
        read_index(tmp_path)


def header(text: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(text) if length is None else length) + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 8,
        header(b"{}", 2**63),
        header(b"{}", 2**40),
        header(b"[]"),
        header(b"{" * 50_000),
        header(b'{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}}') + b"\x00" * 4,
        header(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}') + b"\x00" * 4,
        header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}') + b"\x00" * 4,
        header(b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}') + b"\x00" * 4,
        header(b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}') + b"\x00" * 4,
        header(b'{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}') + b"\x00" * 4,
        header(b'{"__metadata__":{"a":1}}'),
        pickle.dumps({"a": 1}),
        b"PK\x03\x04" + b"\x00" * 100,
    ],
)
def test_hostile_weights_are_refused(tmp_path: Path, content: bytes) -> None:
    folder = checkpoint(tmp_path / "best")
    (folder / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in refused(folder)


def test_weights_of_enormous_numbers_are_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "best")
    for value in (10**400, -(10**400), 1e300, "1", True, None, [1]):
        card = json.loads((folder / "card.json").read_text())
        card["base"] = {next(iter(card["base"])): value}
        (folder / "card.json").write_text(json.dumps(card))
        assert refused(folder)


def profile(folder: Path, graph: bytes, durations: bytes) -> Path:
    (folder / "2g").mkdir(parents=True, exist_ok=True)
    (folder / "2g" / "adj_mat_1.npy").write_bytes(graph)
    (folder / "2g" / "task_duration_1.npy").write_bytes(durations)
    return folder


def npy(head: bytes, data: bytes = b"") -> bytes:
    head = head.ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


class Evil:
    """Runs code when unpickled by the usual means."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("evil-was-here"),))


def test_arrays_of_strangers_run_no_code_and_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stages = {0: {"first_wave": {1: [5.0]}, "rest_wave": {1: [4.0]}, "fresh_durations": {1: [6.0]}}}
    np.save(tmp_path / "d.npy", np.array(stages, dtype=object), allow_pickle=True)
    np.save(tmp_path / "g.npy", np.zeros((1, 1)))
    graph, durations = (tmp_path / "g.npy").read_bytes(), (tmp_path / "d.npy").read_bytes()
    folder = tmp_path / "tpch"
    assert Profiles.read(profile(folder, graph, durations)).queries[0].executors == (2,)
    np.save(tmp_path / "evil.npy", np.array(Evil(), dtype=object), allow_pickle=True)
    evil = (tmp_path / "evil.npy").read_bytes()
    object_head = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }"
    hostile = [
        (evil, durations),
        (graph, evil),
        (graph, npy(object_head, pickle.dumps(Evil()))),
        (graph, npy(object_head, b"\x80\x04X" + b"\xff\xff\xff\x7f" + b"a")),
        (graph, npy(object_head, b"\x80\x02}r\xff\xff\xff\xff.")),  # a table of 2^32 references
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 10), }"), durations),
        (npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 10), }"), durations),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }", pickle.dumps([1])), durations),
        (npy(b"__import__('os').abort()"), durations),
        (npy(b"{" * 100), durations),
        (b"", durations),
        (graph, b""),
        (graph[:20], durations),
        (graph, durations[:-5]),
        (graph, npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", b"\x00" * 8)),
    ]
    rng = random.Random(5)
    hostile += [(damaged(graph, rng), durations) for _ in range(100)]
    hostile += [(graph, damaged(durations, rng)) for _ in range(200)]
    refusals = 0
    for one, two in hostile:
        profile(folder, one, two)
        refusals += error_of(lambda: Profiles.read(folder)) != ""
    assert refusals > 200
    assert not Path("evil-was-here").exists()
