"""The training configuration: one YAML file, every key typed, unknown ones refused with the closest known key.

``TrainConfig.load(path, ["ppo.learning_rate=1e-3"])`` reads it; ``dump`` is what a run folder keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator, model_validator

from dagsched.errors import ConfigError
from dagsched.generate.suite_file import apply_change
from dagsched.learn.config_file import read_config
from dagsched.learn.config_sections import (
    EvolveSection,
    ExpertSection,
    Features,
    ImitateSection,
    NetworkSection,
    Section,
    SelfLabelSection,
    StageName,
    SuiteShare,
    TraceSection,
    ValidationSection,
    known_start,
)
from dagsched.learn.ppo_settings import PPOSettings
from dagsched.pydantic_text import explain


class TrainConfig(Section):
    """Everything that decides a training run."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._+-]+$", description="of the run folder")
    suite: str | tuple[SuiteShare, ...] = Field(description="shipped name or path of a suite, or several with weights")
    seed: int = Field(default=0, ge=0, lt=2**31, description="of every random number")
    start: str = Field(
        default="lft", description="rule that learning starts from, or the folder of a checkpoint for its priority"
    )
    features: Features = Features()
    stages: tuple[StageName, ...] = Field(default=("evolve", "ppo"), min_length=1, description="in this order")
    evolve: EvolveSection = EvolveSection()
    network: NetworkSection = NetworkSection()
    imitate: ImitateSection = ImitateSection()
    ppo: PPOSettings = PPOSettings()
    self_label: SelfLabelSection = SelfLabelSection()
    expert: ExpertSection = ExpertSection()
    validation: ValidationSection = ValidationSection()
    trace: TraceSection = TraceSection()
    threads: int = Field(
        default=2, ge=1, le=256, description="compiled simulations at a time; results do not depend on it"
    )

    @field_validator("start")
    @classmethod
    def _known(cls, value: str) -> str:
        return known_start(value)

    @field_validator("suite")
    @classmethod
    def _some(cls, value: str | tuple[SuiteShare, ...]) -> str | tuple[SuiteShare, ...]:
        if not value:
            raise ValueError("names no suite")
        return value

    @model_validator(mode="after")
    def _stages_once(self) -> TrainConfig:
        if len(set(self.stages)) != len(self.stages):
            raise ValueError("stages: each stage may be named once")
        return self

    @property
    def suites(self) -> tuple[SuiteShare, ...]:
        """The mixture, also of a single suite."""
        return (SuiteShare(suite=self.suite),) if isinstance(self.suite, str) else self.suite

    def section(self, stage: StageName) -> Any:
        """The section of a stage."""
        return getattr(self, section_name(stage))

    def with_steps(self, steps: int) -> TrainConfig:
        """The same with this many steps in every stage."""
        if steps < 1:
            raise ConfigError(f"steps is {steps}, expected a whole number >= 1")
        changed = {section_name(s): self.section(s).model_copy(update={"steps": steps}) for s in self.stages}
        return self.model_copy(update=changed)

    def dump(self) -> str:
        """YAML that :meth:`load` reads back to the same configuration."""
        import yaml

        return str(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True))

    @classmethod
    def load(cls, path: str | Path, changes: Sequence[str] = ()) -> TrainConfig:
        """Read a YAML file and apply ``a.b=c`` changes.

        Raises:
            ConfigError: in one line: file, key, what was found, what is expected.
        """
        file = Path(path)
        data = read_config(file)
        for change in changes:
            apply_change(data, change, example="ppo.steps=20")
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise ConfigError(f"{file}: {explain(error, cls)}") from None


def section_name(stage: StageName) -> str:
    """The key under which a stage is configured."""
    return stage.replace("-", "_")
