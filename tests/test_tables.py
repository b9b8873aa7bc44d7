"""The tables of ``docs/learning.md`` say what the code says."""

from __future__ import annotations

from dagsched.features import schema
from dagsched.learn.train_config import TrainConfig
from tests import tables


def test_the_page_shows_the_schema_and_the_configuration_as_they_are() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.filled(page) == page, "run: python -m tests.tables"


def test_every_table_is_on_the_page() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    for name in tables.tables():
        assert f"<!-- table {name} -->" in page


def test_every_feature_and_every_key_has_a_row() -> None:
    made = tables.tables()
    for table, names in (
        ("task-features", schema.TASK_NAMES),
        ("global-features", schema.GLOBAL_NAMES),
        ("group-features", schema.GROUP_NAMES),
    ):
        assert [line.split("`")[1] for line in made[table].splitlines()[2:]] == list(names)
    keys = {line.split("`")[1] for line in made["config"].splitlines()[2:]}
    for name, field in TrainConfig.model_fields.items():
        section = getattr(field.annotation, "model_fields", None)
        assert keys >= ({name} if section is None else {f"{name}.{inner}" for inner in section})


def test_every_key_is_explained() -> None:
    for line in tables.config().splitlines()[2:]:
        assert line.split(" | ")[-1].strip(" |"), line
