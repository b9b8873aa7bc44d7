"""Mutation fuzzing of everything that reads files from strangers: ``python -m tests.fuzz --count 5000``.

Each mutation of a good file (bytes, lines, numbers, structure, two files spliced) must give workloads that can be
replayed, or one printable line of error that names the file, within bounded time and memory. The small seeded version
runs in ``tests/formats/test_fuzz.py``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dagsched import Cluster, Replay
from dagsched.errors import DagschedError, FormatError, InvalidReplayError
from dagsched.formats import load
from dagsched.generate.suite import Suite
from dagsched.learn.train_config import TrainConfig
from tests.data import data_files
from tests.formats.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[1]
MOST_GIBIBYTES = 8
NUMBERS = (
    "0", "-1", "1", "-0", "1.5", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "null", "true", '"3"', "",
    "007", "+5", "0x10", "\u0663", "1_000", "1,5", "99999999999999999999", str(2**31), str(2**53 + 1), str(2**63),
    "9" * 400, "9" * 5000, "1e18", "1:59:59", "[]", "{}", "1 1",
)  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_TOKENS = re.compile(r"[^\s,:]+")


def damage_bytes(text: str, rng: random.Random, _other: str) -> bytes:
    """A few bytes changed, put in or taken out."""
    out = bytearray(text.encode())
    for _ in range(rng.randrange(1, 10)):
        where = rng.randrange(len(out) + 1)
        kind = rng.randrange(3)
        byte = rng.choice((rng.randrange(256), *b'0123456789-.,:;{}[]"eEn \n\x00\xff&*|>!%@`'))
        if kind == 0:
            out.insert(where, byte)
        elif out and kind == 1:
            out[where % len(out)] = byte
        elif out:
            del out[where % len(out) : where % len(out) + rng.choice((1, 1, 2, 50))]
    return bytes(out)


def damage_lines(text: str, rng: random.Random, other: str) -> bytes:
    """Lines dropped, repeated, moved, indented, cut, or taken from another file."""
    lines = text.split("\n")
    for _ in range(rng.randrange(1, 4)):
        where = rng.randrange(len(lines))
        kind = rng.randrange(7)
        if kind == 0:
            del lines[where]
        elif kind == 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[where])
        elif kind == 2:
            lines.insert(rng.randrange(len(lines)), lines.pop(where))
        elif kind == 3:
            lines[where] = rng.choice(("  ", "\t", "- ", "#", '"', "\r")) + lines[where]
        elif kind == 4:
            lines[where] = lines[where][: rng.randrange(len(lines[where]) + 1)]
        elif kind == 5:
            lines[where] = rng.choice(other.split("\n"))
        else:
            lines = lines[: where + 1]
        lines = lines or [""]
    return "\n".join(lines).encode()


def damage_numbers(text: str, rng: random.Random, _other: str) -> bytes:
    """Numbers replaced by nasty ones, or by each other."""
    for _ in range(rng.randrange(1, 4)):
        found = list(_NUMBER.finditer(text))
        if found:
            chosen = rng.choice(found)
            new = rng.choice((*NUMBERS, rng.choice(found)[0]))
            text = text[: chosen.start()] + new + text[chosen.end() :]
    return text.encode()


def damage_tokens(text: str, rng: random.Random, _other: str) -> bytes:
    """Words and fields dropped, repeated, swapped, or made very long."""
    for _ in range(rng.randrange(1, 4)):
        found = list(_TOKENS.finditer(text))
        if not found:
            break
        one, two = rng.choice(found), rng.choice(found)
        new = rng.choice(("", f"{one[0]} {one[0]}", two[0], f'"{one[0]}"', one[0] * 2000, f"{one[0]},", one[0].upper()))
        text = text[: one.start()] + new + text[one.end() :]
    return text.encode()


def damage_structure(text: str, rng: random.Random, other: str) -> bytes:
    """JSON values replaced, wrapped, removed or repeated; other texts are spliced with another file."""
    try:
        document = json.loads(text)
    except ValueError:
        cut, begin = rng.randrange(len(text) + 1), rng.randrange(len(other) + 1)
        return (text[:cut] + other[begin:]).encode()
    holders: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        value = pending.pop()
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        holders += [(value, key) for key in keys]
        pending += [value[key] for key in keys]
    for _ in range(rng.randrange(1, 4)):
        holder, key = rng.choice(holders)
        try:
            value = holder[key]
            if rng.random() < 0.2:
                del holder[key]
            elif isinstance(holder, list) and rng.random() < 0.3:
                holder.insert(key, value)
            else:
                found = rng.choice(holders)
                new = (
                    None,
                    True,
                    [],
                    {},
                    "",
                    "x",
                    0,
                    -1,
                    10**400,
                    1.5,
                    [value],
                    {"a": value},
                    found[0][found[1]],
                    [[[]]] * 50,
                )
                holder[key] = rng.choice(new)
        except (LookupError, TypeError):
            continue
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):  # a value that came to hold itself
        return b"{}"


DAMAGES = (damage_bytes, damage_lines, damage_numbers, damage_tokens, damage_structure)


def _workloads(path: Path, form: str) -> None:
    for workload in load(path, format=form):
        try:
            Replay.build(workload)
        except InvalidReplayError:  # names the task that fits no node: the file is known by then
            continue


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a reader, the suffix it is given, and good texts."""

    read: Callable[[Path], object]
    suffix: str
    texts: tuple[str, ...]


def _texts(names: tuple[str, ...], *patterns: str) -> tuple[str, ...]:
    real = [file for file in data_files(*patterns) if file.stat().st_size < 60_000]
    return (*(SAMPLES[name] for name in names), *(file.read_bytes().decode("latin-1") for file in real))


def _yaml(*patterns: str) -> tuple[str, ...]:
    return tuple(file.read_text() for pattern in patterns for file in sorted((ROOT / "workloads").glob(pattern)))


def _reader(form: str) -> Callable[[Path], object]:
    return lambda path: _workloads(path, form)


def targets() -> dict[str, Target]:
    """Everything that reads a stranger's file, by name."""
    return {
        "psplib": Target(_reader("psplib"), ".sm", _texts(("hand.sm",), "psplib/j30/j3010_*.sm")),
        "stg": Target(_reader("stg"), ".stg", _texts(("hand.stg",), "stg/50/rand000*.stg", "stg/application/robot")),
        "wfformat": Target(
            _reader("wfformat"),
            ".json",
            _texts(("hand13.json", "hand15.json"), "wfinstances/1.0/sra*.json", "wfinstances/1.5/sra*.json"),
        ),
        "alibaba-2018": Target(
            _reader("alibaba-2018"), ".csv", _texts(("hand.csv",), "alibaba-2018/batch_task_50jobs.csv")
        ),
        "tpch-batch": Target(_reader("tpch-batch"), ".jsonl", _texts(("hand.jsonl",))),
        "dagsched": Target(_reader("dagsched"), ".json", _texts(("own.json",))),
        "cluster": Target(Cluster.from_yaml, ".yaml", _yaml("clusters/*.yaml")),
        "suite": Target(Suite.load, ".yaml", _yaml("*.yaml")),
        "training": Target(TrainConfig.load, ".yaml", _yaml("train/*.yaml")),
    }


@dataclass
class Outcome:
    """What mutations of one kind of file gave."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0


def fuzz(name: str, count: int, folder: Path, seed: int = 0) -> Outcome:
    """Try ``count`` mutations of a target; failures are those that neither read nor refuse in one line."""
    target = targets()[name]
    rng = random.Random(f"{name}-{seed}")
    result = Outcome()
    path = folder / f"mutation{target.suffix}"
    for number in range(count):
        damage = DAMAGES[number % len(DAMAGES)]
        path.write_bytes(damage(rng.choice(target.texts), rng, rng.choice(target.texts)))
        begin = time.perf_counter()
        problem = _try(target, path)
        result.slowest = max(result.slowest, time.perf_counter() - begin)
        result.counts[problem if problem in ("read", "refused") else "failed"] += 1
        if problem not in ("read", "refused"):
            kept = folder / f"failed-{name}-{number}{target.suffix}"
            kept.write_bytes(path.read_bytes())
            result.failures.append(f"{kept} ({damage.__name__}): {problem}")
    return result


def _try(target: Target, path: Path) -> str:
    try:
        target.read(path)
    except DagschedError as error:
        text = str(error)
        if not text.isprintable() or len(text) > 2000:
            return f"not one short printable line: {text[:200]!r}"
        if path.name not in text and isinstance(error, FormatError):
            return f"does not name the file: {text[:200]}"
        return "refused"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {str(error)[:200]}"
    return "read"


def main() -> None:
    """Fuzz all targets, or those named, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(targets()))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_GIBIBYTES << 30, MOST_GIBIBYTES << 30))
    folder = Path(tempfile.mkdtemp(prefix="dagsched-fuzz-"))
    print("| target | mutations | read | refused in one line | failed | slowest, s | peak, MiB |")
    for name in options.only:
        found = fuzz(name, options.count, folder, options.seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        counts = [found.counts[key] for key in ("read", "refused", "failed")]
        print(
            f"| {name} | {options.count:,} | {' | '.join(map(str, counts))} | {found.slowest:.1f} | {peak:,} |",
            flush=True,
        )
        for failure in found.failures[:10]:
            print(f"    {failure}")


if __name__ == "__main__":
    main()
