"""Two independent ways to the same numbers: compiled rollouts, and one decision at a time in Python."""

import numpy as np
import pytest
import torch

from dagsched.features.linear import start_weights
from dagsched.features.schema import TASK_NAMES, columns
from dagsched.generate.suite import Suite
from dagsched.learn.demonstrations import record_rule
from dagsched.learn.episode_runner import EpisodeRunner
from dagsched.learn.initialise import calibrate_scale, fit_normaliser
from dagsched.learn.learner import Learner
from dagsched.learn.rollout import NetworkEpisodeRunner, only
from dagsched.nn.config import NetworkConfig
from dagsched.run_policy import simulate

torch.set_num_threads(1)
FEATURES = tuple(TASK_NAMES[k] for k in columns(("base", "typed")))


@pytest.fixture(scope="module")
def runners():
    return [EpisodeRunner(Suite.load("build").replay("train", k), "makespan") for k in range(2)] + [
        EpisodeRunner(Suite.load("transfers").replay("train", k), "makespan") for k in range(2)
    ]


@pytest.fixture(scope="module")
def normaliser(runners):
    return fit_normaliser(runners, start_weights("critical-path"))


def learner_of(normaliser, base, shake=0.0, **shape):
    learner = Learner(NetworkConfig(features=FEATURES, hidden=24, **shape), base, normaliser, seed=1)
    with torch.no_grad():
        for weight in learner.model.parameters():
            weight.add_(shake * torch.randn_like(weight))
    return learner


def greedy_trajectory(learner, runner):
    network = NetworkEpisodeRunner(runner)
    learner.greedy([network])
    return network.trajectory(network.run(record=True), 0)


@pytest.mark.parametrize("which", range(4))
def test_a_recorded_rule_equals_the_compiled_record_of_the_same_priority(runners, normaliser, which):
    base = start_weights("critical-path")
    compiled = greedy_trajectory(learner_of(normaliser, base), runners[which])
    python = record_rule(runners[which], "critical-path", base, normaliser, columns(("base", "typed")))
    assert python.cost == compiled.cost
    assert (python.start_order == compiled.start_order).all()
    assert len(python.action) == len(compiled.action)
    ends = compiled.row_ptr
    assert (python.row_ptr == ends).all()
    for d in range(len(compiled.action)):
        rows = slice(ends[d], ends[d + 1])
        left, right = np.argsort(python.task[rows]), np.argsort(compiled.task[rows])
        assert python.task[rows][python.action[d]] == compiled.task[rows][compiled.action[d]]
        for name in ("task", "workflow", "started"):
            assert (getattr(python, name)[rows][left] == getattr(compiled, name)[rows][right]).all()
        assert python.x[rows][left] == pytest.approx(compiled.x[rows][right], abs=1e-4)
        assert python.z[rows][left] == pytest.approx(compiled.z[rows][right], abs=1e-9)
    assert python.g == pytest.approx(compiled.g, abs=1e-4)
    assert python.q == pytest.approx(compiled.q, abs=1e-4)
    assert (python.can_wait == compiled.can_wait).all()


@pytest.mark.parametrize("rule", ["min-min", "heft", "sjf", "cp+demand"])
def test_any_rule_can_be_recorded(runners, normaliser, rule):
    for runner in runners:
        found = record_rule(runner, rule, start_weights("lft"), normaliser, columns(("base",)))
        assert found.cost == pytest.approx(runner_cost(runner, rule), rel=1e-12)
        assert len(found.action) > 0
        assert (found.action < np.diff(found.row_ptr)).all()


def runner_cost(runner, rule):
    from dagsched.cost import cost_function

    return cost_function(runner.replay, "makespan")(simulate(runner.replay, rule).task_finish)


@pytest.mark.parametrize("encoder", ["gnn", "none"])
@pytest.mark.parametrize("wait", [False, True])
def test_the_compiled_policy_takes_what_torch_finds_most_probable(runners, normaliser, encoder, wait):
    learner = learner_of(normaliser, start_weights("lft"), 0.1, encoder=encoder, wait=wait, margin=0.5)
    for runner in runners:
        trajectory = greedy_trajectory(learner, runner)
        batch = learner.batch([trajectory])
        logits = learner.model(batch).logits.detach()
        for d in range(len(batch)):
            rows = logits[batch.row_ptr[d] : batch.row_ptr[d + 1]]
            waiting = logits[len(batch.x) + d] if wait and batch.can_wait[d] else -torch.inf
            best = max(float(rows.max()), float(waiting))
            assert float(logits[batch.chosen[d]]) >= best - 1e-4


@pytest.mark.parametrize("encoder", ["gnn", "none"])
def test_sampled_actions_have_the_probabilities_that_torch_says(runners, normaliser, encoder):
    """Mean log-probability of sampled actions = minus the mean entropy, up to its sampling error."""
    learner = learner_of(normaliser, start_weights("lft"), 0.05, encoder=encoder, wait=True, margin=1.0)
    networks = [NetworkEpisodeRunner(runner) for runner in runners]
    groups = learner.sample(networks, learner.seeds(np.random.default_rng(0), 4, 8), temperature=1.4)
    batch = learner.batch([t for group in groups for t in group])
    with torch.no_grad():
        out = learner.model(batch, 1.4)
    gap = (out.log_prob + out.entropy).double()
    assert abs(gap.mean()) < 4 * gap.std() / len(gap) ** 0.5


def test_rewards_add_up_to_minus_the_cost(runners, normaliser):
    learner = learner_of(normaliser, start_weights("lft"), encoder="none")
    for group in learner.sample([NetworkEpisodeRunner(a) for a in runners], [[1, 2]] * 4, temperature=1.0):
        for t in group:
            first = (t.time[0] - t.replay.first_arrival) / (simulate(t.replay, "lft").makespan) if len(t) else 0
            assert t.reward.sum() == pytest.approx(-t.cost, abs=1e-6 + 2 * first * t.cost)


def test_the_normaliser_has_mean_zero_and_deviation_one_on_its_own_data(runners, normaliser):
    base = start_weights("critical-path")
    rows = np.vstack([row for runner in runners for row in runner.rows(base, 200)[0]])
    scaled = (rows - normaliser.task_mean) / normaliser.task_std
    varied = rows.std(axis=0) > 1e-9
    assert scaled[:, varied].mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert scaled[:, varied].std(axis=0) == pytest.approx(1)
    assert scaled[:, ~varied] == pytest.approx(0, abs=1e-9)


def test_the_scale_gives_the_wanted_entropy(runners, normaliser):
    base = start_weights("critical-path")
    scales = [calibrate_scale(runners, base, share) for share in (0.8, 0.5, 0.2)]
    assert scales == sorted(scales)
    learner = learner_of(normaliser, base, encoder="none", scale=scales[1])
    batch = learner.batch([greedy_trajectory(learner, runner) for runner in runners])
    counts = (batch.row_ptr[1:] - batch.row_ptr[:-1]).double()
    with torch.no_grad():
        relative = learner.model(batch).entropy / counts.log()
    varied = torch.tensor([float(z.max() - z.min()) > 0 for z in batch.z.split(counts.long().tolist())])
    assert relative[varied].mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("encoder", ["gnn", "none"])
def test_some_decisions_of_a_trajectory_are_those_of_the_whole(runners, normaliser, encoder):
    learner = learner_of(normaliser, start_weights("lft"), 0.05, encoder=encoder, wait=True)
    whole = learner.sample([NetworkEpisodeRunner(runners[3])], [[5]], temperature=1.0)[0][0]
    places = np.array([0, 3, 4, len(whole) - 1])
    part = only(whole, places)
    with torch.no_grad():
        left = learner.model(learner.batch([whole]).select(torch.from_numpy(places)))
        right = learner.model(learner.batch([part]))
    for name in ("log_prob", "entropy", "value"):
        assert torch.allclose(getattr(left, name), getattr(right, name), atol=1e-6)
    assert learner.values(part.g, part.q) == pytest.approx(right.value.numpy(), abs=1e-6)
    assert (part.reward == whole.reward[places]).all()


def test_the_same_seed_gives_the_same_run(runners, normaliser):
    learner = learner_of(normaliser, start_weights("lft"), 0.05)
    networks = [NetworkEpisodeRunner(runner) for runner in runners]
    first = learner.sample(networks, [[3, 4]] * 4, temperature=1.0)
    again = learner.sample(networks[2:3], [[4]], temperature=1.0)[0][0]
    assert (first[2][1].action == again.action).all()
    assert first[2][0].cost != again.cost
