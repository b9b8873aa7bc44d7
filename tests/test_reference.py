"""The pages of ``docs/reference`` say what the code says."""

from __future__ import annotations

import dataclasses

from dagsched import list_policies
from dagsched.features import schema
from dagsched.formats import readers
from dagsched.generate.suite import Suite
from dagsched.learn.train_config import TrainConfig
from dagsched.replay import SimulationOptions
from tests import reference


def test_every_table_is_as_the_code_has_it() -> None:
    for page in reference.pages():
        text = reference.text_of(page)
        assert reference.filled(text) == text, f"{page.name} differs; run: python -m tests.reference"


def test_every_table_is_on_a_page() -> None:
    text = "".join(reference.text_of(page) for page in reference.pages())
    for name in reference.tables():
        assert text.count(f"<!-- table {name} -->") == 1


def first_cells(table: str) -> list[str]:
    return [line.split("`")[1] for line in reference.tables()[table].splitlines()[2:]]


def test_every_feature_and_every_key_has_a_row() -> None:
    for table, names in (
        ("task-features", schema.TASK_NAMES),
        ("global-features", schema.GLOBAL_NAMES),
        ("group-features", schema.GROUP_NAMES),
        ("policies", [info.name for info in list_policies()]),
        ("formats", readers()),
    ):
        assert first_cells(table) == list(names)
    keys = set(first_cells("config"))
    for name, field in TrainConfig.model_fields.items():
        section = getattr(field.annotation, "model_fields", None)
        assert keys >= ({name} if section is None else {f"{name}.{inner}" for inner in section})
    keys = {key.partition(".")[0].removesuffix("[]") for key in first_cells("suite")}
    assert keys == set(Suite.model_fields)
    assert {f"options.{field.name}" for field in dataclasses.fields(SimulationOptions)} <= set(first_cells("suite"))


def test_every_command_and_every_option_is_explained() -> None:
    assert "## dagsched compare\n" in reference.commands()
    assert "{formats}" not in reference.commands()
    lines = [line for line in reference.commands().splitlines() if line.startswith("| `")]
    for line in [*lines, *reference.config().splitlines()[2:], *reference.suite().splitlines()[2:]]:
        assert line.split(" | ")[-1].strip(" |"), line
