"""One reader for all YAML: nothing small becomes large, nothing has two meanings, errors name the file in one line."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from dagsched import Cluster
from dagsched.cli import run
from dagsched.errors import ConfigError
from dagsched.generate.suite import Suite
from dagsched.learn.train_config import TrainConfig
from dagsched.yaml_text import parse_yaml

ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{', '.join([f'*{chr(97 + k)}'] * 9)}]\n" for k in range(9)
)
"""Half a kilobyte that stands for 9^10 texts."""


def peak_mebibytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("read", [Cluster.from_yaml, Suite.load, TrainConfig.load])
def test_aliases_are_refused_in_every_kind_of_file(tmp_path: Path, read: object) -> None:
    assert len(ALIASES) < 600
    file = tmp_path / "bomb.yaml"
    file.write_text(ALIASES)
    before = peak_mebibytes()
    with pytest.raises(
        ConfigError, match=r"bomb.yaml: not valid YAML \(line 1\): &a: anchors and aliases are not read"
    ):
        read(file)  # type: ignore[operator]
    assert peak_mebibytes() < before + 50  # 6 GB, or a minute, before


def test_aliases_are_refused_in_values_after_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    value = "{a: &a [1, 1], b: [*a, *a]}"
    for command in (
        ["generate", "layered", "--set", f"tasks={value}", "--out", str(tmp_path / "w.json")],
        ["generate", "build.yaml", "--set", f"mixture.0.count={value}", "--out", str(tmp_path / "w.json")],
        ["train", "workloads/train/build.yaml", "--set", f"ppo.steps={value}", "--out", str(tmp_path / "run")],
    ):
        assert run(command) == 2, command
        assert "anchors and aliases are not read" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed: 1\nspeed: 2", r"line 2\): key 'speed' is given twice in one mapping"),
        ("a: {b: 1, c: {d: 1, d: 1}}", r"key 'd' is given twice"),
        ("a: 1" + ":59" * 2000, r"a number of 6,001 characters, expected at most 100"),
        ("a: 0x" + "f" * 5000, r"a number of 5,002 characters"),
        ("[" * 2000, r"more than 100,000 values, or 50 inside each other"),
        ("a: *b", r"\*b: anchors and aliases"),
        ('a: "\\ud800"', r"half of a surrogate pair"),
        ("a: !!python/object/apply:os.system [ls]", r"could not determine a constructor"),
        ("a: !!bool maybe", r"maybe"),
        ("a: !!int ''", r"index"),
        ("a: !!timestamp x", r"groupdict"),
        ("? [a]\n: 1", r"unhashable key"),
        ("a: 2001-99-99", r"month must be in"),
        ("a: \x1b[31m", r"unacceptable character"),
        ("a: 1\n--- 2", r"another document"),
    ],
)
def test_texts_with_tricks_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^here: not valid YAML.*{message}") as caught:
        parse_yaml(text, "here")
    assert str(caught.value).isprintable()


def test_ordinary_texts_are_read() -> None:
    text = "name: lab  # remark\ngroups:\n  - {name: old, nodes: 4, speed: 1.7}\nbandwidth: 1.25e+9\nlist: [1, .inf]\n"
    assert parse_yaml(text, "x") == {
        "name": "lab",
        "groups": [{"name": "old", "nodes": 4, "speed": 1.7}],
        "bandwidth": 1.25e9,
        "list": [1, float("inf")],
    }
    assert parse_yaml("", "x") is None
    assert (
        len(parse_yaml("\n".join(f"- {{name: g{k}, nodes: 1, capacity: {{cpu: 1}}}}" for k in range(1024)), "x"))
        == 1024
    )


@pytest.mark.parametrize("read", [Cluster.from_yaml, Suite.load, TrainConfig.load])
def test_files_that_are_no_text_are_named(tmp_path: Path, read: object) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: h\xe4nsel\n")
    with pytest.raises(ConfigError, match=r"latin.yaml: not valid YAML: is not UTF-8 text \(byte 7\)"):
        read(tmp_path / "latin.yaml")  # type: ignore[operator]
    (tmp_path / "big.yaml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match="larger than 1,048,576 bytes"):
        read(tmp_path / "big.yaml")  # type: ignore[operator]


def test_a_configuration_written_is_read_back(tmp_path: Path) -> None:
    """The writer must not use aliases for lists that are one object."""
    for file in sorted(Path("workloads/train").glob("*.yaml")):
        config = TrainConfig.load(file)
        (tmp_path / "config.yaml").write_text(config.dump())
        assert TrainConfig.load(tmp_path / "config.yaml") == config
