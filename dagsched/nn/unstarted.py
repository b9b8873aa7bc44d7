"""Means over the tasks of a workflow that have not started, as differences of one running sum over start orders.

A start order lists a workflow's tasks as they started, so that what had not started at a decision is a suffix of it.
On the CPU the running sum is one compiled pass that keeps a single row; torch's ``cumsum`` over rows and its gradient
took half the time of a gradient step. Both add in the same order in float64, so that the bits are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor


def unstarted_means(values: Tensor, order: Tensor, begin: Tensor, end: Tensor, tasks: Tensor) -> Tensor:
    """``[U, W]`` float32: sums of the rows ``order[begin:end]`` of ``values``, divided by ``tasks``.

    Args:
        values: ``[T, W]`` float32.
        order: ``[L]`` int64 rows.
        begin: ``[U]`` int64, ascending.
        end: ``[U]`` int64, ascending.
        tasks: ``[U]`` float64.
    """
    if values.device.type == "cpu":
        found: Tensor = _UnstartedMeans.apply(values, order, begin, end, tasks)  # type: ignore[no-untyped-call]
        return found
    return _unstarted_means_anywhere(values, order, begin, end, tasks)


def _unstarted_means_anywhere(values: Tensor, order: Tensor, begin: Tensor, end: Tensor, tasks: Tensor) -> Tensor:
    """The same on any device."""
    running = values[order].double().cumsum(0)  # float64: differences of long sums
    running = torch.cat([running.new_zeros(1, running.shape[1]), running])
    return ((running[end] - running[begin]) / tasks.unsqueeze(1)).float()


class _UnstartedMeans(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, order: Tensor, begin: Tensor, end: Tensor, tasks: Tensor) -> Tensor:
        ctx.save_for_backward(order, begin, end, tasks)
        ctx.rows = len(values)
        means = np.empty((len(begin), values.shape[1]), np.float32)
        _sum_up(*_arrays(values, order, begin, end, tasks), np.zeros((len(begin), values.shape[1])), means)
        return torch.from_numpy(means)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        found = np.zeros((ctx.rows, gradients[0].shape[1]), np.float32)
        order, begin, end, tasks = _arrays(*ctx.saved_tensors)
        of_place = np.empty((len(order), found.shape[1]), np.float32)
        _share_out(*_arrays(gradients[0]), order, begin, end, tasks, of_place, found)
        return torch.from_numpy(found), None, None, None, None


def _arrays(*tensors: Tensor) -> list[np.ndarray[Any, Any]]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]


@njit(cache=True, nogil=True)
def _sum_up(values, order, begin, end, tasks, before, means):  # type: ignore[no-untyped-def]
    """Write ``means``; ``before`` ``[U, W]`` holds the running sum at the begin of each segment until its end."""
    width = values.shape[1]
    running = np.zeros(width)
    opened, closed = 0, 0
    for place in range(len(order) + 1):
        while opened < len(begin) and begin[opened] == place:
            for k in range(width):
                before[opened, k] = running[k]
            opened += 1
        while closed < len(end) and end[closed] == place:
            for k in range(width):
                means[closed, k] = np.float32((running[k] - before[closed, k]) / tasks[closed])
            closed += 1
        if closed == len(end):
            break
        row = order[place]
        for k in range(width):
            running[k] += np.float64(values[row, k])


@njit(cache=True, nogil=True)
def _share_out(gradient, order, begin, end, tasks, of_place, found):  # type: ignore[no-untyped-def]
    """Add to ``found`` ``[T, W]`` the gradient of each row over the segments it lies in; ``of_place`` ``[L, W]``."""
    width = gradient.shape[1]
    running, gained, lost = np.zeros(width), np.zeros(width), np.zeros(width)
    opened, closed = len(begin), len(end)
    for place in range(len(order), 0, -1):
        first_closed, first_opened = _group(end, closed, place), _group(begin, opened, place)
        if first_closed < closed or first_opened < opened:
            gained[:] = 0.0
            lost[:] = 0.0
            for u in range(first_closed, closed):
                for k in range(width):
                    gained[k] += np.float64(gradient[u, k]) / tasks[u]
            for u in range(first_opened, opened):
                for k in range(width):
                    lost[k] -= np.float64(gradient[u, k]) / tasks[u]
            for k in range(width):
                running[k] += gained[k] + lost[k]
        closed, opened = first_closed, first_opened
        for k in range(width):
            of_place[place - 1, k] = np.float32(running[k])
    for place in range(len(order)):
        row = order[place]
        for k in range(width):
            found[row, k] += of_place[place, k]


@njit(cache=True, nogil=True)
def _group(sorted_places, last, place):  # type: ignore[no-untyped-def]
    """First of the entries before ``last`` that equal ``place``, which is the largest value left; ``last`` if none."""
    first = last
    while first > 0 and sorted_places[first - 1] == place:
        first -= 1
    return first
