"""Tiled Cholesky, LU and QR factorisation: the task graphs of Buttari, Langou, Kurzak and Dongarra 2009.

"A class of parallel tiled linear algebra algorithms for multicore architectures", Parallel Computing 35(1). Durations
are proportional to the operations of each kernel on tiles of order b, in units of b^3: for Cholesky POTRF 1/3, TRSM 1,
SYRK 1, GEMM 2; for LU GETRF 2/3, TRSM 1, GEMM 2; for QR GEQRT 4/3, UNMQR 2, TSQRT 2, TSMQR 4 (Bouwmeester, Jacquelin,
Langou and Robert 2011). LU is without pivoting between tiles.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from dagsched.generate.drawing import Drawing, check_total, varied
from dagsched.generate.mix import check_count, check_number, check_rng
from dagsched.workflow import Workflow


def cholesky(
    rng: np.random.Generator,
    *,
    tiles: int = 8,
    unit_seconds: float = 5.0,
    spread: float = 0.0,
    tile_bytes: float = 8e6,
    name: str = "cholesky",
) -> Workflow:
    """Tiled Cholesky factorisation of a matrix of ``tiles`` x ``tiles`` tiles: n (n + 1) (n + 2) / 6 tasks.

    Args:
        rng: source of all randomness, used only if ``spread`` > 0.
        tiles: order of the matrix in tiles.
        unit_seconds: seconds of b^3 operations.
        spread: sigma of lognormal variation of each task.
        tile_bytes: bytes of a tile, sent along every edge.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    flow = _Flow(rng, tiles, unit_seconds, spread, tile_bytes)
    for k in range(tiles):
        flow.task("potrf", 1 / 3, [], (k, k))
        for i in range(k + 1, tiles):
            flow.task("trsm", 1, [(k, k)], (i, k))
        for i in range(k + 1, tiles):
            flow.task("syrk", 1, [(i, k)], (i, i))
            for j in range(k + 1, i):
                flow.task("gemm", 2, [(i, k), (j, k)], (i, j))
    return flow.workflow(name)


def lu(
    rng: np.random.Generator,
    *,
    tiles: int = 8,
    unit_seconds: float = 5.0,
    spread: float = 0.0,
    tile_bytes: float = 8e6,
    name: str = "lu",
) -> Workflow:
    """Tiled LU factorisation: n (n + 1) (2 n + 1) / 6 tasks; parameters as for :func:`cholesky`.

    Args:
        rng: source of all randomness, used only if ``spread`` > 0.
        tiles: order of the matrix in tiles.
        unit_seconds: seconds of b^3 operations.
        spread: sigma of lognormal variation of each task.
        tile_bytes: bytes of a tile, sent along every edge.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    flow = _Flow(rng, tiles, unit_seconds, spread, tile_bytes)
    for k in range(tiles):
        flow.task("getrf", 2 / 3, [], (k, k))
        for i in range(k + 1, tiles):
            flow.task("trsm-row", 1, [(k, k)], (k, i))
            flow.task("trsm-column", 1, [(k, k)], (i, k))
        for i in range(k + 1, tiles):
            for j in range(k + 1, tiles):
                flow.task("gemm", 2, [(i, k), (k, j)], (i, j))
    return flow.workflow(name)


def qr(
    rng: np.random.Generator,
    *,
    tiles: int = 8,
    unit_seconds: float = 5.0,
    spread: float = 0.0,
    tile_bytes: float = 8e6,
    name: str = "qr",
) -> Workflow:
    """Tiled QR factorisation with a flat tree: n (n + 1) (2 n + 1) / 6 tasks; parameters as for :func:`cholesky`.

    Args:
        rng: source of all randomness, used only if ``spread`` > 0.
        tiles: order of the matrix in tiles.
        unit_seconds: seconds of b^3 operations.
        spread: sigma of lognormal variation of each task.
        tile_bytes: bytes of a tile, sent along every edge.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    flow = _Flow(rng, tiles, unit_seconds, spread, tile_bytes)
    for k in range(tiles):
        # the reflectors below the diagonal and R above it are apart: TSQRT changes R while UNMQR reads the reflectors
        flow.task("geqrt", 4 / 3, [], (k, k), also=[("reflectors", k)])
        for j in range(k + 1, tiles):
            flow.task("unmqr", 2, [("reflectors", k)], (k, j))
        for i in range(k + 1, tiles):
            flow.task("tsqrt", 2, [(k, k)], (i, k), also=[(k, k)])
            for j in range(k + 1, tiles):
                flow.task("tsmqr", 4, [(i, k), (k, j)], (i, j), also=[(k, j)])
    return flow.workflow(name)


class _Flow:
    """Edges follow the data: a task comes after the last writer of every tile that it reads or writes."""

    def __init__(
        self, rng: np.random.Generator, tiles: int, unit_seconds: float, spread: float, tile_bytes: float
    ) -> None:
        check_rng(rng)
        check_count("tiles", tiles, 1, 140)
        check_number("unit_seconds", unit_seconds, more_than=0)
        check_number("spread", spread, at_least=0, at_most=5)
        check_number("tile_bytes", tile_bytes, at_least=0)
        check_total("tiles", tiles * (tiles + 1) * (2 * tiles + 1) / 6)
        self.rng, self.unit, self.spread, self.tile_bytes = rng, float(unit_seconds), spread, float(tile_bytes)
        self.drawing = Drawing()
        self.writer: dict[Hashable, int] = {}

    def task(
        self,
        kernel: str,
        operations: float,
        reads: list[Hashable],
        writes: Hashable,
        also: list[Hashable] | None = None,
    ) -> None:
        """Add one kernel that reads tiles and updates ``writes`` and ``also`` in place."""
        written = [writes, *(also or [])]
        parents = dict.fromkeys(self.writer[tile] for tile in [*reads, *written] if tile in self.writer)
        seconds = operations * self.unit
        if self.spread:
            seconds = varied(self.rng, seconds, self.spread)
        memory = max(1.0, self.tile_bytes * (len(reads) + len(written)))
        number = self.drawing.add(kernel, seconds, list(parents), receives=self.tile_bytes, memory=memory)
        self.writer.update(dict.fromkeys(written, number))

    def workflow(self, name: str) -> Workflow:
        """The finished workflow."""
        return self.drawing.workflow(name)
