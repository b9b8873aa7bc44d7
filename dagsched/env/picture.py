"""The schedule so far as an image, for ``render()``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dagsched.draw.gantt import draw_gantt
from dagsched.schedule import Schedule
from dagsched.simulator import kernel
from dagsched.simulator.stepper import Simulator

WIDTH, HEIGHT, DPI = 11.0, 6.0, 80


def so_far(simulator: Simulator) -> Schedule:
    """What has started up to now; running work is drawn to the present moment, since its end is not known yet."""
    state = simulator.state
    alloc = state.alloc[: int(state.counter[kernel.ALLOCS])]
    decision = state.decision[: int(state.counter[kernel.DECISIONS])]
    ready = state.task["ready_time"]
    return Schedule(
        replay=simulator.replay,
        policy="environment",
        task=alloc["task"].copy(),
        node=alloc["node"].copy(),
        count=alloc["count"].copy(),
        start=alloc["start"].copy(),
        finish=np.minimum(alloc["finish"], simulator.now),
        execution=np.minimum(alloc["execution"], simulator.now),
        ready=np.where(np.isnan(ready), simulator.replay.first_arrival, ready),
        decision_time=decision["time"].copy(),
        decision_task=decision["task"].copy(),
        decision_node=decision["node"].copy(),
        decision_count=decision["count"].copy(),
    )


def picture(simulator: Simulator) -> NDArray[np.uint8]:
    """``[480, 880, 3]`` Gantt chart of the schedule so far."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from dagsched.draw.figures import picture_text, style

    schedule = so_far(simulator)
    with style():
        figure = draw_gantt(schedule)
        figure.set_size_inches(WIDTH, HEIGHT)
        figure.set_dpi(DPI)
        title = picture_text(f"{schedule.replay.workload.name}: {simulator.now:,.6g} s")
        figure.axes[0].set_title(title, loc="left", fontsize=11)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3].copy()
