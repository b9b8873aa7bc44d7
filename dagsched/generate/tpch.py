"""TPC-H queries from the user's copy of the Decima profiles (Mao et al. 2019, SIGCOMM; decima-sim).

A query becomes the workflow of the learned-DAG-scheduling benchmark (``tpch-batch``; Wang et al. 2021, PPO-BiHyb):
a stage is one task that holds an executor for each of its Spark tasks; its duration is the mean over the profile's
lists as Decima cleans them (:func:`stage_seconds`). The conversion gives the published problems exactly.

The profiles are pickles inside ``.npy`` files. They are read by an unpickler that knows NumPy arrays and nothing else,
so that a hostile file cannot run code.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dagsched.cluster import Cluster
from dagsched.errors import ConfigError, FormatError, InvalidWorkflowError
from dagsched.files import is_dir
from dagsched.generate.mix import check_rng
from dagsched.workflow import FloatArray, Workflow, natural_key

RESOURCE = "executors"
CAPACITY = 6000.0
"""Executors of the benchmark's cluster."""

_MOST_BYTES = 64 * 2**20
_MOST_MEMOS = 1_000_000
_MOST_VALUES = 1_000_000
"""References of a pickle, and durations of a stage: a list referred to a thousand times counts a thousand times."""

_LISTS = ("first_wave", "rest_wave", "fresh_durations")
_SIZE = re.compile(r"\d+g")


def tpch_cluster() -> Cluster:
    """The benchmark's cluster: one pool of 6,000 executors."""
    return Cluster.pooled({RESOURCE: CAPACITY})


@dataclass(frozen=True, slots=True)
class Stages:
    """One query at one data size: seconds, executors and parents of each stage, ``[S]``."""

    label: str
    seconds: tuple[float, ...]
    executors: tuple[int, ...]
    parents: tuple[tuple[int, ...], ...]

    def workflow(self, name: str) -> Workflow:
        """The query as a workflow."""
        return query_workflow(name, self.seconds, self.executors, self.parents)


@dataclass(frozen=True, slots=True)
class Profiles:
    """Every query of a folder of profiles, in order of data size and query number."""

    queries: tuple[Stages, ...]

    @classmethod
    def read(cls, folder: str | Path) -> Profiles:
        """Read ``2g/adj_mat_1.npy``, ``2g/task_duration_1.npy`` and so on below a folder.

        Raises:
            ConfigError: if the folder is missing or holds no profiles.
            FormatError: naming a damaged file, or one that holds more than NumPy arrays.
        """
        root = Path(folder)
        if not is_dir(root):
            raise ConfigError(
                f"profiles: {root} is not a folder; give the folder of the Decima profiles, which holds 2g, 5g, ... "
                f"(spark_env/tpch of hongzimao/decima-sim)"
            )
        sizes = [entry for entry in root.iterdir() if entry.is_dir() and _SIZE.fullmatch(entry.name)]
        queries = []
        for size in sorted(sizes, key=lambda entry: natural_key(entry.name)):
            for file in sorted(size.glob("adj_mat_*.npy"), key=lambda entry: natural_key(entry.name)):
                number = file.stem.removeprefix("adj_mat_")
                queries.append(_query(f"{size.name}/q{number}", file, size / f"task_duration_{number}.npy"))
        if not queries:
            raise ConfigError(f"profiles: {root} holds no files such as 2g/adj_mat_1.npy; give the Decima profiles")
        return cls(tuple(queries))


def draw_queries(rng: np.random.Generator, opened: Profiles, count: int) -> list[Workflow]:
    """``count`` queries of the profiles, uniformly over queries and data sizes, named ``job007-10g/q8``.

    Args:
        rng: source of all randomness.
        opened: the profiles.
        count: how many.
    """
    check_rng(rng)
    digits = max(3, len(str(count)))
    chosen = rng.integers(len(opened.queries), size=count).tolist()
    return [
        opened.queries[k].workflow(f"job{number:0{digits}d}-{opened.queries[k].label}")
        for number, k in enumerate(chosen, 1)
    ]


def query_workflow(
    name: str, seconds: Sequence[float], executors: Sequence[int], parents: Sequence[Sequence[int]]
) -> Workflow:
    """A workflow of Spark stages on the single resource ``executors``."""
    duration: FloatArray = np.array(seconds, np.float64)
    return Workflow(
        name=name,
        task_ids=tuple(str(stage) for stage in range(len(seconds))),
        resources=(RESOURCE,),
        duration=duration,
        estimate=duration,
        demand=np.array(executors, np.float64)[:, None],
        instances=np.ones(len(seconds), np.int64),
        parent_ptr=np.concatenate([[0], np.cumsum([len(row) for row in parents])]).astype(np.int64),
        parent_idx=np.array([p for row in parents for p in row], np.int64),
        parent_bytes=np.zeros(sum(len(row) for row in parents)),
    )


def stage_seconds(profile: Mapping[str, Mapping[int, Sequence[float]]]) -> float:
    """Mean duration of a Spark task of one stage, rounded to the nanosecond.

    Decima's cleaning: durations of fresh executors are taken out of the first wave; a level whose first wave is then
    empty repeats the next lower level's. The mean is over first waves, later waves and fresh durations at all levels.
    """
    first, rest, fresh = (profile[key] for key in _LISTS)
    if sum(len(durations) for lists in (first, rest, fresh) for durations in lists.values()) > _MOST_VALUES:
        raise ValueError(f"a stage of more than {_MOST_VALUES:,} durations")
    values: list[float] = []
    before: list[float] = []
    for level in sorted(first):
        taken = Counter(fresh.get(level, ()))
        kept: list[float] = []
        for milliseconds in first[level]:
            if taken[milliseconds] > 0:
                taken[milliseconds] -= 1
            else:
                kept.append(milliseconds)
        before = kept or before
        values += before
    for lists in (rest, fresh):
        values += [milliseconds for level in sorted(lists) for milliseconds in lists[level]]
    if not values:
        raise ValueError("a stage without any duration")
    return round(math.fsum(values) / len(values), 6) / 1000


def _query(label: str, graph: Path, durations: Path) -> Stages:
    try:
        matrix = _read_matrix(graph)
        stages = _read_pickled(durations)
        count = len(stages)
        if matrix.shape != (count, count) or sorted(stages) != list(range(count)):
            raise ValueError(f"{graph.name} is of shape {matrix.shape}, but there are {count} stages")
        seconds, executors = [], []
        for stage in range(count):
            profile = stages[stage]
            level = next(iter(profile["first_wave"]))
            executors.append(len(profile["first_wave"][level]) + len(profile["rest_wave"][level]))
            seconds.append(stage_seconds(profile))
    except OSError as error:
        raise FormatError(f"{error.filename or durations}: cannot be read: {error.strerror or error}") from None
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        StopIteration,
        OverflowError,
        pickle.UnpicklingError,
    ) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise FormatError(f"{durations}: not a profile of the stages of a query: {text}") from None
    parents = tuple(tuple(np.flatnonzero(matrix[:, stage]).tolist()) for stage in range(count))
    query = Stages(label, tuple(seconds), tuple(executors), parents)
    try:
        query.workflow(label)
    except InvalidWorkflowError as error:
        raise FormatError(f"{graph}: {error}") from None
    return query


def _opened(path: Path) -> tuple[io.BytesIO, tuple[int, ...], np.dtype[Any]]:
    """The content of an ``.npy`` file after its header, and the shape and type that the header states."""
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"larger than {_MOST_BYTES} bytes")
    content = io.BytesIO(path.read_bytes())  # from memory a length can ask for no more than there is
    try:
        version = np.lib.format.read_magic(content)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(content)
    except Exception as error:
        raise ValueError(f"{path.name} has no readable header: {error}") from None
    return content, shape, dtype


def _read_matrix(path: Path) -> NDArray[Any]:
    """A square array of numbers; what its header asks for must be there before memory is taken."""
    content, shape, dtype = _opened(path)
    rest = len(content.getbuffer()) - content.tell()
    if len(shape) != 2 or min(shape) < 0 or dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != rest:
        raise ValueError(f"{path.name} is not a whole array of shape {shape} and type {dtype} of two dimensions")
    return np.frombuffer(content.read(), dtype).reshape(shape)


def _read_pickled(path: Path) -> Any:
    """The object in a 0-dimensional object array, read without running anything."""
    content, shape, dtype = _opened(path)
    if shape != () or not dtype.hasobject:
        raise ValueError(f"an array of shape {shape} and type {dtype}, expected one pickled mapping")
    begin = content.tell()
    try:
        for operation, argument, _ in pickletools.genops(content):
            if operation.name in ("PUT", "LONG_BINPUT") and not 0 <= int(str(argument)) <= _MOST_MEMOS:
                raise pickle.UnpicklingError("asks for an enormous table of references")
        content.seek(begin)
        value = _NumpyUnpickler(content, encoding="latin1").load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:
        raise ValueError(f"is no pickle of a mapping: {error}") from None
    mapping = value.item() if isinstance(value, np.ndarray) and value.shape == () else value
    if not isinstance(mapping, dict):
        raise ValueError("expected a mapping from stages to durations")
    return mapping


def _empty_array(kind: object, shape: object, _code: object) -> Any:
    """What NumPy pickles begin with; any other shape would let a file ask for terabytes."""
    if kind is not np.ndarray or shape != (0,):
        raise pickle.UnpicklingError("holds an array that NumPy did not write")
    return np.ndarray((0,), np.int8)


class _NumpyUnpickler(pickle.Unpickler):
    """Knows how NumPy rebuilds an array, and nothing else."""

    def __init__(self, file: IO[bytes], *, encoding: str) -> None:
        super().__init__(file, encoding=encoding)

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return _empty_array
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"refused: it asks for {module}.{name}, expected NumPy arrays only")
