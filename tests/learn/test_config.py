import pytest

from dagsched.errors import ConfigError
from dagsched.learn.train_config import TrainConfig

LEAST = "name: small\nsuite: build\n"


@pytest.fixture
def load(tmp_path):
    def load(text=LEAST, changes=()):
        (tmp_path / "c.yaml").write_text(text)
        return TrainConfig.load(tmp_path / "c.yaml", changes)

    return load


def test_name_and_suite_are_enough(load):
    config = load()
    assert config.stages == ("evolve", "ppo")
    assert config.validation.instances >= 100
    assert [share.suite for share in config.suites] == ["build"]


def test_what_is_dumped_is_read_back(load):
    config = load(
        LEAST
        + "ppo: {steps: 3, clip_value: 0.2}\nnetwork: {scale: 1.5, encoder: none}\nstages: [imitate, self-label]\n"
    )
    assert load(config.dump()) == config


def test_several_suites_with_weights(load):
    config = load("name: two\nsuite:\n- {suite: build, weight: 2}\n- {suite: join}\n")
    assert [(s.suite, s.weight) for s in config.suites] == [("build", 2.0), ("join", 1.0)]


def test_changes_from_the_command_line(load):
    config = load(changes=["ppo.steps=7", "network.encoder=none", "stages=[ppo]", "ppo.target_kl=null"])
    assert (config.ppo.steps, config.network.encoder, config.stages, config.ppo.target_kl) == (
        7,
        "none",
        ("ppo",),
        None,
    )


def test_steps_for_every_stage(load):
    config = load().with_steps(5)
    assert (config.evolve.steps, config.ppo.steps, config.self_label.steps) == (5, 5, 100)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LEAST + "pop: {}\n", "unknown key 'pop'; did you mean 'ppo'"),
        (LEAST + "ppo: {learning_rat: 1}\n", "unknown key 'ppo.learning_rat'; did you mean 'learning_rate'"),
        (LEAST + "network: {zzz: 1}\n", "unknown key 'network.zzz'; known keys: encoder"),
        ("name: x\nsuite: [{suite: a, wait: 2}]\n", "did you mean 'weight'"),
        ("name: x\nsuite: [{suite: a, changes: 3}]\n", "suite.0.changes is 3: expected a list"),
        ("name: x\nsuite: [{weight: 2}]\n", "suite.0.suite is missing"),
        ("name: x\nsuite: [{suite: a, weight: .inf}]\n", "suite.0.weight is inf"),
        ("name: x\nsuite: [{suite: a, weight: 1.0e+308}]\n", "suite.0.weight is 1e+308"),
        ("name: x\nsuite: [3]\n", "suite.0 is 3: expected a mapping"),
        (LEAST + "ppo: {clip: 0}\n", "ppo.clip is 0"),
        (LEAST + "ppo: {steps: many}\n", "ppo.steps is 'many'"),
        (LEAST + "expert: {actions: 1}\n", "expert.actions is 1"),
        (LEAST + "expert: {follow: rule}\n", "expert.follow is 'rule'"),
        (LEAST + "start: lift\n", "did you mean 'lft'"),
        (LEAST + "start: heft\n", "no linear rule 'heft'"),
        (LEAST + "stages: [ppo, ppo]\n", "once"),
        (LEAST + "stages: [fly]\n", "stages.0 is 'fly'"),
        (LEAST + "stages: []\n", "stages"),
        (LEAST + "network: {scale: big}\n", "network.scale"),
        ("name: a/b\nsuite: build\n", "name is 'a/b'"),
        ("suite: build\n", "name is missing"),
        ("name: x\nsuite: ''\n", "names no suite"),
        ("- 1\n", "expected a mapping"),
        ("a: [\n", "not valid YAML"),
        ("name: x\nsuite: build\nseed: -1\n", "seed is -1"),
    ],
)
def test_mistakes_in_one_line(load, text, message):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert message in str(caught.value)
    assert "c.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["ppo", "=3", "name.first=2", "ppo.steps=[", "stages.x=1"])
def test_unusable_changes(load, change):
    with pytest.raises(ConfigError, match="expected"):
        load(LEAST + "stages: [ppo]\n", [change])


def test_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="no such"):
        TrainConfig.load(tmp_path / "none.yaml")
