from __future__ import annotations

import json

import numpy as np
import pytest

from dagsched.errors import ConfigError
from dagsched.features import schema
from dagsched.features.builder import FIXED, Normaliser
from dagsched.features.linear import START, start_weights, weights_of

PARTS = {
    "task": schema.TASK_NAMES,
    "global": schema.GLOBAL_NAMES,
    "group": schema.GROUP_NAMES,
    "node": schema.NODE_FEATURES,
}


def fitted() -> Normaliser:
    rng = np.random.default_rng(0)
    rows = {part: rng.normal(3, 2, (40, len(names))) for part, names in PARTS.items()}
    rows["task"][:, 5] = 1.25
    return Normaliser.fit(rows["task"], rows["global"], rows["group"], rows["node"])


def test_names_are_unique_and_every_feature_says_what_it_is() -> None:
    for features in (schema.TASK_FEATURES, schema.GLOBAL_FEATURES, schema.GROUP_FEATURES):
        assert len({f.name for f in features}) == len(features)
        assert all(f.meaning and f.unit for f in features)
    assert {f.block for f in schema.TASK_FEATURES} == {"base", "typed", "workflow", "khop"}


def test_what_the_encoder_reads_is_fixed_when_the_workflow_arrives() -> None:
    assert set(schema.NODE_FEATURES) <= {schema.TASK_NAMES[k] for k in FIXED}


def test_the_hash_changes_with_any_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    before = schema.schema_hash()
    assert before == schema.schema_hash()
    first, *rest = schema.TASK_FEATURES
    other = schema.Feature(first.name, first.unit, first.meaning + "!", first.block)
    monkeypatch.setattr(schema, "TASK_FEATURES", (other, *rest))
    assert schema.schema_hash() != before


def test_blocks_divide_the_columns() -> None:
    every = [schema.columns((block,)) for block in ("base", "typed", "workflow", "khop")]
    assert sorted(sum(every, ())) == list(range(len(schema.TASK_NAMES)))
    assert schema.columns(("base", "typed")) == tuple(sorted(every[0] + every[1]))


def test_a_normaliser_survives_json_and_gives_constant_columns_the_value_0() -> None:
    one = fitted()
    two = Normaliser.from_dict(json.loads(json.dumps(one.to_dict())))
    for name in ("task_mean", "task_std", "global_mean", "global_std", "group_mean", "node_std"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert abs((1.25 + 100 - one.task_mean[5]) / one.task_std[5]) < 1e-6


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.pop("group"),
        lambda d: d["task"].pop("share"),
        lambda d: d["task"].update(luck=[0.0, 1.0]),
        lambda d: d["task"].update(share=[0.0, 0.0]),
        lambda d: d["task"].update(share=[float("nan"), 1.0]),
        lambda d: d.update(node=list(d["node"])),
    ],
)
def test_a_normaliser_of_other_features_or_unusable_numbers_is_refused(spoil: object) -> None:
    data = fitted().to_dict()
    spoil(data)  # type: ignore[operator]
    with pytest.raises(ConfigError, match="normaliser"):
        Normaliser.from_dict(data)


def test_start_weights_name_known_features_and_rules() -> None:
    from dagsched.policies.registry import list_policies

    rules = {info.name for info in list_policies()}
    for rule, weights in START.items():
        assert rule in rules
        found = start_weights(rule)
        assert {schema.TASK_NAMES[k]: float(found[k]) for k in np.flatnonzero(found)} == dict(weights)
    with pytest.raises(ConfigError, match="expected one of critical-path"):
        start_weights("heft")
    with pytest.raises(ConfigError, match="no task feature 'luck'"):
        weights_of({"luck": 1.0})
