"""Shapes of scientific workflows from a few parameters: Montage, Epigenomics and CyberShake.

Structure after Bharathi, Chervenak, Deelman, Mehta, Su and Vahi 2008, "Characterization of scientific workflows"
(WORKS); mean durations and file sizes are rounded from Juve et al. 2013, "Characterizing and profiling scientific
workflows" (FGCS 29(3)). Differs: durations are lognormal around the mean of the task type, single tasks that
process everything grow with the width, and every task holds one core.
"""

from __future__ import annotations

import numpy as np

from dagsched.generate.drawing import Drawing, check_total, varied
from dagsched.generate.mix import check_count, check_number, check_rng
from dagsched.workflow import Workflow

_MEGABYTE = 1e6


def montage_like(
    rng: np.random.Generator, *, width: int = 20, spread: float = 0.3, scale: float = 1.0, name: str = "montage-like"
) -> Workflow:
    """A mosaic of ``width`` images, about 5 x width tasks.

    Project each image; fit the difference of each overlapping pair (images on a grid overlap with their neighbours
    beside, below and diagonally below); one fit over all; correct each background; add, shrink and convert.

    Args:
        rng: source of all randomness.
        width: number of images.
        spread: sigma of the lognormal variation of each duration.
        scale: factor on every duration.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    _check(rng, spread, scale)
    check_count("width", width, 2)
    check_total("width", 6 * width)
    drawing, time = Drawing(), _Clock(rng, spread, scale)
    project = [drawing.add("mProject", time(1.7)) for _ in range(width)]
    fits = [
        drawing.add("mDiffFit", time(0.7), [project[a], project[b]], receives=4 * _MEGABYTE)
        for a, b in _overlaps(width)
    ]
    concat = drawing.add("mConcatFit", time(0.5 + 0.023 * len(fits)), fits, receives=300)
    model = drawing.add("mBgModel", time(1 + 0.18 * width), [concat], receives=40 * len(fits))
    corrected = [drawing.add("mBackground", time(1.7), [image, model], receives=4 * _MEGABYTE) for image in project]
    table = drawing.add("mImgtbl", time(0.5 + 0.02 * width), corrected, receives=4 * _MEGABYTE)
    memory = min(16e9, 1e9 + 4 * _MEGABYTE * width)
    add = drawing.add("mAdd", time(1 + 2.2 * width), [*corrected, table], receives=4 * _MEGABYTE, memory=memory)
    shrink = drawing.add("mShrink", time(1 + 0.5 * width), [add], receives=4 * _MEGABYTE * width)
    drawing.add("mJPEG", time(0.6), [shrink], receives=0.2 * _MEGABYTE * width)
    return drawing.workflow(name)


def epigenomics_like(
    rng: np.random.Generator,
    *,
    lanes: int = 2,
    width: int = 10,
    spread: float = 0.3,
    scale: float = 1.0,
    name: str = "epigenomics-like",
) -> Workflow:
    """Genome mapping: each lane is split into ``width`` chunks which pass four stages; lanes (4 width + 2) + 3 tasks.

    Args:
        rng: source of all randomness.
        lanes: sequencing lanes.
        width: chunks of each lane.
        spread: sigma of the lognormal variation of each duration.
        scale: factor on every duration.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    _check(rng, spread, scale)
    check_count("lanes", lanes)
    check_count("width", width)
    check_total("lanes x width", lanes * (4 * width + 2) + 3)
    drawing, time = Drawing(), _Clock(rng, spread, scale)
    merged = []
    for _ in range(lanes):
        split = drawing.add("fastqSplit", time(3.4 * width))
        mapped = []
        for _ in range(width):
            chunk = drawing.add("filterContams", time(2.5), [split], receives=13 * _MEGABYTE)
            chunk = drawing.add("sol2sanger", time(0.5), [chunk], receives=13 * _MEGABYTE)
            chunk = drawing.add("fastq2bfq", time(1.4), [chunk], receives=10 * _MEGABYTE)
            mapped.append(drawing.add("map", time(200), [chunk], receives=2 * _MEGABYTE, memory=2e9))
        merged.append(drawing.add("mapMerge", time(1 + 1.0 * width), mapped, receives=1 * _MEGABYTE))
    whole = drawing.add("mapMerge", time(1 + 0.5 * lanes * width), merged, receives=width * _MEGABYTE)
    index = drawing.add("maqIndex", time(43), [whole], receives=lanes * width * _MEGABYTE)
    drawing.add("pileup", time(56), [index], receives=lanes * width * _MEGABYTE, memory=4e9)
    return drawing.workflow(name)


def cybershake_like(
    rng: np.random.Generator,
    *,
    lanes: int = 4,
    width: int = 10,
    spread: float = 0.5,
    scale: float = 1.0,
    name: str = "cybershake-like",
) -> Workflow:
    """Earthquake hazard of one site: ``lanes`` tensors for ``width`` ruptures each; lanes (2 width + 1) + 2 tasks.

    Extract a tensor; synthesise a seismogram for each rupture; its peak value; zip all seismograms and all peaks.

    Args:
        rng: source of all randomness.
        lanes: strain Green tensors.
        width: rupture variations of each tensor.
        spread: sigma of the lognormal variation of each duration.
        scale: factor on every duration.
        name: of the workflow.

    Raises:
        ConfigError: naming the parameter.
    """
    _check(rng, spread, scale)
    check_count("lanes", lanes)
    check_count("width", width)
    check_total("lanes x width", lanes * (2 * width + 1) + 2)
    drawing, time = Drawing(), _Clock(rng, spread, scale)
    seismograms, peaks = [], []
    for _ in range(lanes):
        tensor = drawing.add("ExtractSGT", time(110), memory=4e9)
        for _ in range(width):
            seismograms.append(
                drawing.add("SeismogramSynthesis", time(79), [tensor], receives=150 * _MEGABYTE, memory=2e9)
            )
            peaks.append(drawing.add("PeakValCalc", time(0.6), seismograms[-1:], receives=24e3))
    drawing.add("ZipSeis", time(1 + 0.3 * len(seismograms)), seismograms, receives=24e3)
    drawing.add("ZipPSA", time(1 + 0.2 * len(peaks)), peaks, receives=216)
    return drawing.workflow(name)


class _Clock:
    """Lognormal durations of a given mean."""

    def __init__(self, rng: np.random.Generator, spread: float, scale: float) -> None:
        self.rng, self.spread, self.scale = rng, spread, scale

    def __call__(self, seconds: float) -> float:
        return varied(self.rng, seconds * self.scale, self.spread)


def _check(rng: np.random.Generator, spread: float, scale: float) -> None:
    check_rng(rng)
    check_number("spread", spread, at_least=0, at_most=5)
    check_number("scale", scale, more_than=0, at_most=1e6)


def _overlaps(images: int) -> list[tuple[int, int]]:
    """Pairs of neighbours when the images fill a square grid row by row."""
    side = max(1, round(images**0.5))
    pairs = []
    for a in range(images):
        row, column = divmod(a, side)
        for down, right in ((0, 1), (1, -1), (1, 0), (1, 1)):
            b = (row + down) * side + column + right
            if 0 <= column + right < side and b < images:
                pairs.append((a, b))
    return pairs
