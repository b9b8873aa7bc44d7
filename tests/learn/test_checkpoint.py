import json
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from dagsched.cluster import Cluster, NodeGroup
from dagsched.errors import CheckpointError, ConfigError
from dagsched.features import schema
from dagsched.features.builder import Normaliser
from dagsched.models.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from dagsched.models.index import choose, path_share
from dagsched.nn.config import NetworkConfig
from dagsched.nn.shapes import weight_shapes
from dagsched.replay import Replay
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.learn.made import made_replay


def made(kind="ppo", encoder="gnn", **changes):
    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(9, n)) for n in (len(schema.TASK_FEATURES), len(schema.GLOBAL_FEATURES),
                                             len(schema.GROUP_FEATURES), len(schema.NODE_FEATURES))]  # fmt: skip
    base = np.where(rng.random(len(schema.TASK_FEATURES)) < 0.3, rng.normal(size=len(schema.TASK_FEATURES)), 0.0)
    network = NetworkConfig(encoder=encoder, hidden=8, hidden2=8, width=4) if kind == "ppo" else None
    shapes = weight_shapes(network) if network else {}
    fields = {
        "kind": kind,
        "objective": "makespan",
        "base": base,
        "normaliser": Normaliser.fit(*rows),
        "network": network,
        "tensors": {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
        "card": {"data": "made up", "sizes": [1, 2], "beaten": {"lft": -0.03}, "lost": {}, "command": "none"},
    }
    return Checkpoint(**{**fields, **changes})


def change(folder, name, edit):
    data = json.loads((folder / name).read_text())
    edit(data)
    (folder / name).write_text(json.dumps(data))


@pytest.fixture
def folder(tmp_path):
    save_checkpoint(tmp_path / "best", made())
    return tmp_path / "best"


@pytest.mark.parametrize(("kind", "encoder"), [("evolved", "none"), ("ppo", "none"), ("ppo", "gnn")])
def test_round_trip(tmp_path, kind, encoder):
    saved = made(kind, encoder)
    save_checkpoint(tmp_path / "a" / "b", saved)
    loaded = load_checkpoint(tmp_path / "a" / "b")
    assert (loaded.base == saved.base).all()
    assert loaded.card == saved.card
    assert loaded.network == saved.network
    assert loaded.digest == saved.digest
    assert loaded.normaliser.to_dict() == saved.normaliser.to_dict()
    assert set(loaded.tensors) == set(saved.tensors)
    for name, value in saved.tensors.items():
        assert (loaded.tensors[name] == value).all()
    assert sorted(f.name for f in (tmp_path / "a").iterdir()) == ["b"]
    assert loaded.digest in (tmp_path / "a" / "b" / "card.md").read_text()


def test_loading_needs_no_torch(folder):
    code = f"""
import sys
from dagsched.models.checkpoint import load_checkpoint
load_checkpoint({str(folder)!r})
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_shapes_are_those_of_the_network():
    from dagsched.nn.actor_critic import ActorCritic

    for encoder in ("gnn", "none"):
        config = NetworkConfig(encoder=encoder, width=5, layers=2, hidden=7, hidden2=6, group_width=3)
        found = {name: tuple(value.shape) for name, value in ActorCritic(config).state_dict().items()}
        assert found == weight_shapes(config)


def test_an_older_checkpoint_is_replaced(folder):
    save_checkpoint(folder, made("evolved"), extra={"more.bin": b"1"})
    assert load_checkpoint(folder).kind == "evolved"
    assert (folder / "more.bin").read_bytes() == b"1"
    assert [f.name for f in folder.parent.iterdir()] == ["best"]


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a.txt").write_text("dear")
    with pytest.raises(ConfigError, match="not a checkpoint"):
        save_checkpoint(tmp_path / "letters", made())
    assert (tmp_path / "letters" / "a.txt").read_text() == "dear"


def test_a_failed_write_keeps_the_older_one(folder, monkeypatch):
    import dagsched.models.folder as files

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        save_checkpoint(folder, made("evolved"))
    assert load_checkpoint(folder).kind == "ppo"
    assert [f.name for f in folder.parent.iterdir()] == ["best"]


@pytest.mark.parametrize("name", ["model.safetensors", "schema.json", "normaliser.json", "card.json"])
def test_every_file_is_needed(folder, name):
    (folder / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name} is missing"):
        load_checkpoint(folder)


def test_no_folder(tmp_path):
    with pytest.raises(CheckpointError, match="no such checkpoint"):
        load_checkpoint(tmp_path / "none")


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_weights(folder, keep):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        load_checkpoint(folder)


def test_one_flipped_bit_is_found(folder):
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(CheckpointError, match="digest"):
        load_checkpoint(folder)


class Bomb:
    def __reduce__(self):
        return print, ("executed",)


def test_a_pickle_is_refused_unread(folder, capsys):
    (folder / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="pickle"):
        load_checkpoint(folder)
    assert "executed" not in capsys.readouterr().out


def test_a_torch_archive_is_refused_unread(folder):
    import torch

    torch.save({"w": torch.zeros(2)}, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="torch archive"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("card.json", lambda d: d["base"].update(estimate=123.0)),
        ("card.json", lambda d: d["card"].update(beaten="everything")),
        ("card.json", lambda d: d.update(objective="slo")),
        ("card.json", lambda d: d["network"].update(scale=9.0)),
        ("card.json", lambda d: d.pop("digest")),
        ("normaliser.json", lambda d: d["task"].update(estimate=[0.0, 2.0])),
    ],
)
def test_edited_files_are_found(folder, name, edit):
    change(folder, name, edit)
    with pytest.raises(CheckpointError, match="digest"):
        load_checkpoint(folder)


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        ("card.json", lambda d: d.update(format=99), "format is 99"),
        ("card.json", lambda d: d.update(kind="oracle"), "kind is 'oracle'"),
        ("card.json", lambda d: d.update(kind="evolved"), "network"),
        ("card.json", lambda d: d.update(objective="fame"), "objective is 'fame'"),
        ("card.json", lambda d: d.update(base=[1]), "base"),
        ("card.json", lambda d: d["base"].update(luck=1.0), "luck"),
        ("card.json", lambda d: d["base"].update(estimate="x"), "estimate"),
        ("card.json", lambda d: d["network"].update(width=0), "width"),
        ("card.json", lambda d: d["network"].update(depth=3), "depth"),
        ("card.json", lambda d: d["network"].update(features=["luck"]), "network"),
        ("card.json", lambda d: d["network"].update(hidden=9), r"tensor '\w+' is float32"),
        ("card.json", lambda d: d["network"].update(encoder="none"), "unexpected encoder"),
        ("card.json", lambda d: d["network"].update(layers=4), "missing encoder.layers.3"),
        ("card.json", lambda d: d.update(card=None), "card is None"),
        ("normaliser.json", lambda d: d["task"].pop("estimate"), "task"),
        ("normaliser.json", lambda d: d["node"].update(estimate=[0.0, 0.0]), "node"),
        ("schema.json", lambda d: d["task"].pop(0), "only here estimate"),
        ("schema.json", lambda d: d["global"][0].update(name="luck"), "only there luck; only here progress"),
        ("schema.json", lambda d: d.update(version=0), "version 0 there, 2 here"),
        ("schema.json", lambda d: d["group"][0].update(unit="m"), "changed nodes"),
        ("schema.json", lambda d: d["node"].reverse(), "another order"),
    ],
)
def test_foreign_content_is_explained(folder, name, edit, message):
    change(folder, name, edit)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_checkpoint(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{'a': 1}", '{"a": NaN}', "[" * 100_000, "\x00"])
@pytest.mark.parametrize("name", ["schema.json", "normaliser.json", "card.json"])
def test_broken_json(folder, name, text):
    (folder / name).write_text(text)
    with pytest.raises(CheckpointError, match=name):
        load_checkpoint(folder)


def test_nan_weights_are_neither_written_nor_read(folder, tmp_path):
    from safetensors.numpy import load, save

    bad = made()
    bad.tensors["w2"][0, 0] = np.nan
    with pytest.raises(CheckpointError, match="NaN"):
        save_checkpoint(tmp_path / "new", bad)
    assert not (tmp_path / "new").exists()
    file = folder / "model.safetensors"
    tensors = dict(load(file.read_bytes()))
    tensors["w2"] = np.full_like(tensors["w2"], np.nan)
    file.write_bytes(save(tensors))
    with pytest.raises(CheckpointError, match="'w2' holds NaN"):
        load_checkpoint(folder)


def test_weights_of_another_type(folder):
    from safetensors.numpy import load, save

    file = folder / "model.safetensors"
    file.write_bytes(save({name: value.astype(np.float64) for name, value in load(file.read_bytes()).items()}))
    with pytest.raises(CheckpointError, match="float64"):
        load_checkpoint(folder)


def test_the_digest_covers_every_part():
    first = made()
    others = [
        made(kind="evolved"), made(objective="slo"), made(base=first.base * 2), made(card={}), made(encoder="none"),
        made(tensors={name: value + 1 for name, value in first.tensors.items()}),
    ]  # fmt: skip
    assert len({c.digest for c in [first, *others]}) == 1 + len(others)
    assert made().digest == first.digest


def transfers_replay():
    tasks = [Task("a", 1, {"cpu": 1}), Task("b", 1, {"cpu": 1}, parents=["a"], edge_bytes={"a": 9.0})]
    groups = (NodeGroup("x", 2, {"cpu": 2, "memory": 1}), NodeGroup("y", 1, {"cpu": 2, "memory": 1}))
    return Replay.build(Workload("t", (Workflow.from_tasks("w", tasks),)), Cluster(groups, bandwidth=1.0))


def test_the_first_entry_that_fits_is_chosen(tmp_path):
    index = {
        "checkpoints": [
            {"path": "pooled", "objective": "makespan", "when": {"pooled": True, "resources": [1, 1]}},
            {"path": "slow", "objective": "makespan", "when": {"transfers": True}},
            {"path": "flow", "objective": "flow_time"},
        ]
    }
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert choose(tmp_path, made_replay(), "makespan").name == "pooled"
    assert choose(tmp_path, made_replay(), None).name == "pooled"
    assert choose(tmp_path, transfers_replay(), "makespan").name == "slow"
    assert choose(tmp_path, transfers_replay(), "flow_time").name == "flow"
    with pytest.raises(CheckpointError, match="no checkpoint fits"):
        choose(tmp_path, made_replay(), "slo")


def test_paths_against_room_choose_the_checkpoint(tmp_path):
    chain = Workflow.from_tasks("c", [Task("a", 6, {"cpu": 1}), Task("b", 6, {"cpu": 1}, parents=["a"])])
    bulk = Workflow.from_tasks("b", [Task(f"t{k}", 2, {"cpu": 2}) for k in range(9)])
    later = Workflow.from_tasks("z", [Task("a", 900, {"cpu": 2})], arrival=5)
    pool = Cluster.pooled({"cpu": 2.0})
    long = Replay.build(Workload("long", (chain,)), pool)
    assert path_share(long) == 12 / 6  # 12 s of one core on a pool of two
    assert path_share(Replay.build(Workload("both", (chain, bulk)), pool)) == 12 / 24
    assert path_share(Replay.build(Workload("later", (chain, later)), pool)) == 2  # what comes later is not known
    index = {
        "checkpoints": [
            {"path": "paths", "objective": "makespan", "policy": "evolved", "when": {"path_share": [1, 1e9]}},
            {"path": "room", "objective": "makespan", "when": {"path_share": [0, 1]}},
            {"path": "net", "objective": "makespan", "policy": "ppo"},
        ]
    }
    (tmp_path / "index.json").write_text(json.dumps(index))
    assert choose(tmp_path, long, "makespan", "evolved").name == "paths"
    assert choose(tmp_path, long, "makespan", "ppo").name == "net"
    assert choose(tmp_path, Replay.build(Workload("bulk", (bulk,)), pool), "makespan", "ppo").name == "room"


def test_without_an_index_the_folder_is_the_choice(folder):
    assert choose(folder, made_replay(), "slo") == folder


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ("{}", "checkpoints is missing"),
        ("[]", "docs/learning.md shows an index"),
        ('{"checkpoints": []}', "checkpoints"),
        ('{"checkpoints": [{"path": "../x", "objective": "slo"}]}', "below the index"),
        ('{"checkpoints": [{"path": "/etc", "objective": "slo"}]}', "below the index"),
        ('{"checkpoints": [{"path": "x", "objective": "slo", "when": {"moon": true}}]}', "when.moon"),
    ],
)
def test_a_broken_index(tmp_path, text, message):
    (tmp_path / "index.json").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        choose(tmp_path, made_replay(), "slo")


def other_schema(monkeypatch, edit):
    """As a later version would have it: other task features."""
    features = edit(list(schema.TASK_FEATURES))
    names = tuple(feature.name for feature in features)
    monkeypatch.setattr(schema, "TASK_FEATURES", tuple(features))
    monkeypatch.setattr(schema, "TASK_NAMES", names)
    monkeypatch.setitem(Normaliser._NAMES, "task", names)


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_words_about_a_feature_may_change(tmp_path, monkeypatch, kind):
    saved = made(kind)
    digest = saved.digest
    save_checkpoint(tmp_path / "m", saved)
    other_schema(monkeypatch, lambda known: [replace(feature, meaning="said better") for feature in known])
    loaded = load_checkpoint(tmp_path / "m")
    assert loaded.digest == digest
    assert (loaded.base == saved.base).all()
    save_checkpoint(tmp_path / "again", loaded)  # under the words of this version
    assert load_checkpoint(tmp_path / "again").digest != digest


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_a_model_needs_only_the_features_that_it_reads(tmp_path, monkeypatch, kind):
    weights = np.zeros(len(schema.TASK_FEATURES))
    weights[schema.TASK_NAMES.index("bottom")] = 2.0
    saved = made(kind, base=weights)
    save_checkpoint(tmp_path / "m", saved)
    there = saved.normaliser.to_dict()["task"]
    new = schema.Feature("luck", "share", "drawn")
    other_schema(monkeypatch, lambda known: [new, *(f for f in known if f.name != "sibling_share")])
    loaded = load_checkpoint(tmp_path / "m")
    assert loaded.priority == {"bottom": 2.0}
    assert loaded.base[schema.TASK_NAMES.index("bottom")] == 2.0
    here = loaded.normaliser.to_dict()["task"]
    assert here["luck"] == [0.0, 1.0]
    assert {name: there[name] for name in here if name != "luck"} == {n: v for n, v in here.items() if n != "luck"}


@pytest.mark.parametrize("kind", ["evolved", "ppo"])
def test_a_feature_that_is_computed_otherwise_refuses_the_models_that_read_it(tmp_path, monkeypatch, kind):
    weights = np.zeros(len(schema.TASK_FEATURES))
    weights[schema.TASK_NAMES.index("bottom")] = 2.0
    save_checkpoint(tmp_path / "m", made(kind, base=weights))

    def raised(name):
        return lambda known: [replace(f, version=f.version + 1) if f.name == name else f for f in known]

    other_schema(monkeypatch, raised("sibling_share"))
    assert load_checkpoint(tmp_path / "m").priority == {"bottom": 2.0}
    other_schema(monkeypatch, raised("bottom"))
    with pytest.raises(CheckpointError, match="task features: changed bottom"):
        load_checkpoint(tmp_path / "m")
