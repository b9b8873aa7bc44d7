"""Whether the data has what training, validation and confirmation will need; asked before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dagsched.errors import ConfigError
from dagsched.generate.suite import Split
from dagsched.learn.config_sections import ValidationSection
from dagsched.learn.episode_runner import EpisodeRunner, linear_costs
from dagsched.learn.instances import InstanceSource, replays_of
from dagsched.objective import ObjectiveName
from dagsched.replay import Replay
from dagsched.workflow import FloatArray


def validation_replays(
    source: InstanceSource, wanted: ValidationSection, say: Callable[[str], None] = lambda _: None
) -> list[Replay]:
    """The validation instances, once training and confirmation have been seen to have what they will need.

    Raises:
        ConfigError: for a split without instances, one that cannot be drawn, or for ``slo`` one without deadlines.
    """
    held: dict[Split, list[Replay]] = {"train": [source.replay("train", 0)]}
    if source.left_out:
        say(f"trace: its last {source.left_out} workflows fill no window and are left out")
    counts: dict[Split, int] = {"validation": wanted.instances, "confirm": wanted.confirm}
    for split, count in counts.items():
        held[split] = replays_of(source, split, count)
        if len(held[split]) < count:
            say(f"{split}: the data has {len(held[split])} instances, {count} were asked for")
        if not held[split]:
            raise ConfigError(f"{split}: the data has no instance for it; give more data")
        if source.objective == "slo":
            _require_deadlines(split, held[split], say)
    return held["validation"]


def _require_deadlines(split: Split, replays: Sequence[Replay], say: Callable[[str], None]) -> None:
    without = sum(not np.isfinite(replay.deadline).any() for replay in replays)
    if without == len(replays):
        raise ConfigError(
            f"{split}: objective slo, but no workflow of its {without} instances has a deadline; give some "
            "(deadlines of the suite, or of the trace), or train for flow_time"
        )
    if without:
        say(f"{split}: {without} of {len(replays)} instances have no deadline and always cost 0")


def shares_mean_something(
    weights: FloatArray, start: str, replays: Sequence[Replay], objective: ObjectiveName, threads: int
) -> bool:
    """Whether shares of the start's costs do: it costs on every instance, or on any if these are rates.

    Args:
        weights: ``[F]`` of the start.
        start: its name.
        replays: validation instances.
        objective: what costs.
        threads: compiled simulations at a time.

    Raises:
        ConfigError: where it costs nothing at all: no model could be better, and none be chosen.
    """
    costs = linear_costs(weights[None], [EpisodeRunner(replay, objective) for replay in replays], threads)[0]
    if not costs.any():
        raise ConfigError(
            f"validation: under the start {start} each of {len(costs)} instances costs 0 "
            f"({objective}), which nothing can improve on; give more load, tighter deadlines or longer "
            "tasks"
        )
    return bool(costs.any() if objective == "slo" else costs.all())
