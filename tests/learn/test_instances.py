import numpy as np
import pytest

from dagsched.declared import Declared
from dagsched.errors import ConfigError
from dagsched.formats import save
from dagsched.generate.suite import Suite
from dagsched.learn.baselines import best_rules, rule_costs, standard_rules
from dagsched.learn.config_sections import TraceSection
from dagsched.learn.instances import SuiteInstances, TraceInstances, open_source, replays_of
from dagsched.learn.paired_costs import difference
from dagsched.learn.train_config import TrainConfig
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload


def stream(count=100, due=False, chain=False):
    workflows = []
    for k in range(count):
        tasks = [
            Task("a", 1.0 + k % 3, {"cpu": 1}),
            Task("b", 2.0, {"cpu": 1}, ["a"] if chain else []),
            Task("c", 1.0, {"cpu": 1}, ["b" if chain else "a"]),
        ]
        deadline = 5.0 * k + 9 if due else None
        workflows.append(Workflow.from_tasks(f"w{k:03d}", tasks, arrival=5.0 * k, deadline=deadline))
    return Workload("stream", tuple(workflows))


def test_seeds_train_on_different_replays_and_share_the_others():
    one, two = (SuiteInstances([Suite.load("build")], [1.0], seed) for seed in (0, 1))
    assert one.replay("train", 3).digest == SuiteInstances([Suite.load("build")], [1.0], 0).replay("train", 3).digest
    assert one.replay("train", 3).digest != two.replay("train", 3).digest
    assert one.replay("validation", 3).digest == two.replay("validation", 3).digest
    assert one.size("train") is None


def test_suites_are_mixed_by_weight_and_taken_in_turns():
    suites = [Suite.load("build"), Suite.load("join")]
    source = SuiteInstances(suites, [3.0, 1.0], 0)
    drawn = [source.replay("train", k).workload.name.split("-")[0] for k in range(60)]
    assert 30 < drawn.count("build") < 58
    assert [source.replay("confirm", k).workload.name.split("-")[0] for k in range(4)] == ["build", "join"] * 2
    assert source.size("confirm") == sum(suite.size("confirm") for suite in suites)
    assert len(replays_of(source, "confirm", 5)) == 5


def test_suites_of_different_objectives_are_not_mixed():
    with pytest.raises(ConfigError, match="objectives differ"):
        SuiteInstances([Suite.load("build"), Suite.load("online-layered")], [1, 1], 0)


def test_a_stream_is_split_by_time():
    source = TraceInstances([stream()], TraceSection(window=5), 0, "t")
    last = 0.0
    assert source.objective == "flow_time"
    assert source.size("validation") == source.size("confirm") == source.size("test") == 2
    train = {source.replay("train", k).first_arrival for k in range(14)}
    assert len(train) == 14
    for split in ("validation", "confirm", "test"):
        arrivals = [source.replay(split, k).first_arrival for k in range(2)]
        assert min(arrivals) > max(train)
        assert min(arrivals) > last
        last = max(arrivals)


def test_training_goes_round_a_trace_in_another_order_each_time():
    source = TraceInstances([stream()], TraceSection(window=5), 0, "t")
    rounds = [[source.replay("train", 14 * r + k).first_arrival for k in range(14)] for r in range(2)]
    assert rounds[0] != rounds[1]
    assert sorted(rounds[0]) == sorted(rounds[1])


def test_the_objective_of_a_trace_is_what_it_declares():
    due = stream(due=True)
    assert TraceInstances([due], TraceSection(window=5), 0, "t").objective == "flow_time"
    all_due = due.declare(Declared(all_have_deadlines=True))
    assert TraceInstances([all_due], TraceSection(window=5), 0, "t").objective == "slo"
    single = [Workload(f"x{k}", (stream().workflows[k],), declared=Declared(closed=True)) for k in range(12)]
    assert TraceInstances(single, TraceSection(), 0, "t").objective == "makespan"
    assert TraceInstances(single, TraceSection(objective="flow_time"), 0, "t").objective == "flow_time"
    assert TraceInstances([due], TraceSection(window=5), 0, "t").replay("test", 0).objective == "flow_time"


def test_too_short_a_trace():
    with pytest.raises(ConfigError, match=r"gives 4 instances of 5 workflows, at least 10"):
        TraceInstances([stream(20)], TraceSection(window=5), 0, "t")


def test_a_trace_file_instead_of_the_suite(tmp_path):
    save(stream(), tmp_path / "trace.json")
    config = TrainConfig.model_validate({"name": "x", "suite": "build", "trace": {"window": 4}})
    source = open_source(config, tmp_path / "trace.json")
    assert source.describe()["trace"] == "trace.json"
    assert len(source.replay("train", 0).workflows) == 4


def test_rules_are_ordered_by_their_mean_cost():
    replays = [Suite.load("build").replay("validation", k) for k in range(10)]
    found = best_rules(replays, "makespan")
    means = [costs.mean() for costs in found.costs.values()]
    assert means == sorted(means)
    assert len(found.costs) == 6
    assert {"heft", "min-min", "lft"} <= set(standard_rules())
    assert "random" not in standard_rules()
    for name, costs in found.costs.items():
        assert (rule_costs(replays, "makespan", name) == costs).all()
    assert set(best_rules(replays, "makespan", ("fcfs", "lft")).costs) == {"fcfs", "lft"}


def test_difference_by_hand():
    found = difference(np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 3.0]), "makespan")
    assert found.mean == pytest.approx(0.5 ** (1 / 3) - 1)
    assert (found.wins, found.ties, found.losses) == (1, 2, 0)
    assert str(found).startswith("-20.63% [-")
    rates = difference(np.array([0.0, 0.1]), np.array([0.2, 0.1]), "slo")
    assert rates.mean == pytest.approx(-0.1)
    assert str(rates).startswith("-10.00 points [-20.00 points, ")
    assert str(difference(np.array([1.0]), np.array([2.0]), "makespan")) == "-50.00%"
    same = difference(np.ones(5), np.ones(5), "makespan")
    assert same.mean == 0
    assert not same.significant
