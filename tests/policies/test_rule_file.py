"""What lies on disk is what runs: edited rules, checkpoints, clusters, tables and traces, in the same process."""

from __future__ import annotations

import os
import pickle
import py_compile
import shutil
import sys
from pathlib import Path

import pytest

from dagsched.cluster import Cluster, cluster_named
from dagsched.errors import DagschedError, PolicyError
from dagsched.evaluate.compare import compare_baselines
from dagsched.evaluate.runner import PolicyCrashError
from dagsched.formats.known import known_makespan
from dagsched.generate.suite import Suite
from dagsched.policies.base import Policy
from dagsched.policies.learned.trained import fingerprint, resolve
from dagsched.policies.registry import make_policy, policy_key
from dagsched.run_policy import simulate
from dagsched.shipped import shipped
from dagsched.simulator import validate
from dagsched.task import Task
from dagsched.workflow import Workflow
from dagsched.workload import Workload
from tests.handmade import one_workflow
from tests.simulator.test_hand_worked import decisions

ONE = Cluster.pooled({"cpu": 1})
POOL = {"groups": [{"name": "pool", "capacity": {"cpu": 1}}]}
TASKS = [Task("a", 3), Task("b", 1), Task("c", 2)]
SHORT = "def rule(state):\n    return -state.fastest[state.eligible]\n"
LONG = "def rule(state):\n    return +state.fastest[state.eligible]\n"
"""The same number of bytes: size and time of the file do not tell the two apart."""


def write(file: Path, text: str) -> None:
    """Always with the same time of change."""
    file.write_text(text)
    os.utime(file, ns=(10**18, 10**18))


def order(spec: str) -> str:
    return order_of(make_policy(spec))


def order_of(policy: Policy) -> str:
    schedule = simulate(one_workflow(TASKS, ONE), policy)
    validate(schedule)
    return "".join(name for _, name in decisions(schedule))


def test_an_edited_rule_runs_its_new_text_under_a_new_digest(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    write(file, SHORT)
    py_compile.compile(str(file))  # byte code that Python would take for that of the next text
    first = policy_key(f"{file}:rule")
    assert order(f"{file}:rule") == "bca"
    write(file, LONG)
    assert order(f"{file}:rule") == "acb"
    assert policy_key(f"{file}:rule") != first
    write(file, SHORT)
    assert order(f"{file}:rule") == "bca"
    assert policy_key(f"{file}:rule") == first


def test_rules_of_one_name_in_files_of_like_names_are_not_mixed_up(tmp_path: Path) -> None:
    write(tmp_path / "my-rule.py", SHORT)
    write(tmp_path / "my_rule.py", LONG)
    assert [order(f"{tmp_path}/{name}.py:rule") for name in ("my-rule", "my_rule", "my-rule")] == ["bca", "acb", "bca"]


def test_modules_beside_a_rule_belong_to_it_and_count_in_its_digest(tmp_path: Path) -> None:
    digests = []
    for folder, sign in (("one", "-"), ("two", "+")):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "helper_of_mine.py", f"def sign(x):\n    return {sign}x\n")
        text = "from helper_of_mine import sign\n\n\ndef rule(state):\n    return sign(state.fastest[state.eligible])\n"
        write(tmp_path / folder / "mine.py", text)
    specs = [f"{tmp_path}/{folder}/mine.py:rule" for folder in ("one", "two")]
    assert [order(spec) for spec in specs] == ["bca", "acb"]
    digests = [policy_key(spec).split()[-1] for spec in specs]
    assert digests[0] != digests[1]
    assert "helper_of_mine" not in sys.modules
    assert not any(isinstance(finder, object) and type(finder).__name__ == "_Beside" for finder in sys.meta_path)
    write(tmp_path / "one" / "helper_of_mine.py", "def sign(x):\n    return +x\n")
    assert order(specs[0]) == "acb"
    assert policy_key(specs[0]).split()[-1] != digests[0]


def test_a_helper_that_only_a_function_imports_is_refused(tmp_path: Path) -> None:
    """It would be read once in a process, whatever is written to it later, and count in no digest."""
    write(tmp_path / "sign_of_it.py", "SIGN = 1\n")
    inside = "def rule(state):\n    from sign_of_it import SIGN\n    return SIGN * state.fastest[state.eligible]\n"
    write(tmp_path / "late.py", inside)
    with pytest.raises(PolicyError, match=r"line 2 of late\.py imports sign_of_it inside a function; import it at"):
        make_policy(f"{tmp_path / 'late.py'}:rule")
    write(tmp_path / "late.py", inside.replace("sign_of_it import SIGN", "math import e as SIGN"))
    assert order(f"{tmp_path / 'late.py'}:rule") == "acb"


def test_a_file_beside_a_rule_does_not_hide_the_standard_library(tmp_path: Path) -> None:
    write(tmp_path / "math.py", "raise SystemExit('not this one')\n")
    write(
        tmp_path / "mine.py", "import math\n\n\ndef rule(state):\n    return state.fastest[state.eligible] * math.pi\n"
    )
    assert order(f"{tmp_path}/mine.py:rule") == "acb"


def test_ctrl_c_while_a_rule_is_read_is_no_mistake_of_the_rule(tmp_path: Path) -> None:
    write(tmp_path / "mine.py", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        make_policy(f"{tmp_path}/mine.py:rule")


def batch() -> Workload:
    return Workload("batch", (Workflow.from_tasks("w", TASKS),), cluster=ONE)


def test_a_comparison_runs_and_records_what_lies_on_disk(tmp_path: Path) -> None:
    file, found = tmp_path / "mine.py", []
    for text in (SHORT, LONG):
        write(file, text)
        found.append(compare_baselines(batch(), [f"{file}:rule", "fcfs"], objective="flow_time"))
    assert [result.mean("mean_wait")[f"{file}:rule"] for result in found] == pytest.approx([4 / 3, 8 / 3])
    digests = [result.policy_digests for result in found]
    assert [list(entry) for entry in digests] == [[f"{file}:rule"]] * 2
    assert digests[0] != digests[1]


def test_processes_run_the_text_of_the_comparison_that_started_them(tmp_path: Path) -> None:
    file, waits = tmp_path / "mine.py", []
    for text, jobs in ((SHORT, 1), (LONG, 2)):
        write(file, text)
        result = compare_baselines(batch(), [f"{file}:rule"], noise=0.01, replays=2, jobs=jobs)
        py_compile.compile(str(file))
        waits.append(result.mean("mean_wait")[f"{file}:rule"])
    assert waits == pytest.approx([4 / 3, 8 / 3], rel=0.05)


def test_a_rule_that_changes_while_a_comparison_runs_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    write(file, SHORT + "    \nopen(__file__, 'a').write('# once more\\n')\n")
    with pytest.raises(
        PolicyCrashError, match=r"mine\.py:rule.* changed while the comparison ran; run it again"
    ) as found:
        compare_baselines(batch(), [f"{file}:rule"])
    assert "\n" not in str(found.value)


def test_a_resumed_comparison_takes_no_row_of_the_text_before(tmp_path: Path) -> None:
    file, bad = tmp_path / "mine.py", tmp_path / "bad.py"
    write(bad, "def rule(state):\n    return 1 / 0\n")
    write(file, SHORT)
    policies = [f"{file}:rule", f"{bad}:rule"]
    with pytest.raises(PolicyCrashError, match="ZeroDivisionError"):
        compare_baselines(batch(), policies, out=tmp_path / "out")
    write(file, LONG)
    write(bad, SHORT)
    said: list[str] = []
    result = compare_baselines(batch(), policies, out=tmp_path / "out", say=said.append)
    assert any("resuming: 1 finished" in line for line in said)
    assert result.mean("mean_wait") == pytest.approx({policies[0]: 8 / 3, policies[1]: 4 / 3})


def test_a_checkpoint_is_read_again_though_its_card_looks_as_old(tmp_path: Path) -> None:
    replay = one_workflow(TASKS, ONE)
    seen = []
    for name in ("flow", "flow-pool"):
        shutil.rmtree(tmp_path / "mine", ignore_errors=True)
        shutil.copytree(shipped(f"checkpoints/default/{name}"), tmp_path / "mine")
        for file in (tmp_path / "mine").iterdir():
            os.utime(file, ns=(10**18, 10**18))
        loaded = resolve(tmp_path / "mine", replay, "flow_time", "evolved")
        seen.append((loaded.digest, fingerprint(str(tmp_path / "mine"))))
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] != seen[1][1]


def test_the_fingerprint_of_a_folder_that_is_no_checkpoint_reads_nothing_below_it(tmp_path: Path) -> None:
    empty = fingerprint(str(tmp_path))
    (tmp_path / "huge").write_bytes(b"x" * 1000)
    assert fingerprint(str(tmp_path)) == empty


def test_an_edited_cluster_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    for nodes in (2, 3):
        write(file, f"groups: [{{name: g, nodes: {nodes}, capacity: {{cpu: 1}}}}]\n")
        cluster = cluster_named(str(file))
        assert cluster is not None
        assert cluster.node_count == nodes


def test_an_edited_table_of_known_makespans_is_read_again_and_a_new_one_is_seen(tmp_path: Path) -> None:
    instance = tmp_path / "p.rcp"
    instance.write_text("")
    assert known_makespan(instance) is None
    for best in (41, 42):
        write(tmp_path / "known-optimum.csv", f"problem,optimum\np,{best}\n")
        found = known_makespan(instance)
        assert found is not None
        assert found.value == best


def trace(file: Path, seconds: float) -> None:
    rows = ",".join(
        f'{{"name":"w{k}","arrival":{k},"tasks":[{{"id":"a","duration":{seconds:g},"demand":{{"cpu":1}}}}]}}'
        for k in range(40)
    )
    write(file, f'{{"format":"dagsched-workload","version":1,"resources":["cpu"],"workflows":[{rows}]}}')


def test_a_suite_made_anew_draws_from_the_file_as_it_is(tmp_path: Path) -> None:
    file, drawn, digests = tmp_path / "trace.json", [], []
    for seconds in (5.0, 7.0):
        trace(file, seconds)
        suite = Suite.from_dict({"name": "mine", "cluster": POOL, "mixture": [{"kind": "trace", "path": str(file)}]})
        drawn.append(float(suite.replay("train", 0).duration.max()))
        digests.append(suite.digest)
    assert drawn == [5, 7]
    assert digests[0] != digests[1]


def test_a_missing_rule_is_refused_where_its_digest_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="does not exist"):
        policy_key(f"{tmp_path}/mine.py:rule")
    assert issubclass(PolicyError, DagschedError)


OPTIONS = "def rule(state, sign=-1, by='fastest', twice=False):\n    return sign * getattr(state, by)[state.eligible]\n"


def test_options_of_a_spec_are_arguments_of_the_function(tmp_path: Path) -> None:
    file = tmp_path / "with_options.py"
    write(file, OPTIONS)
    assert order(f"{file}:rule") == "bca"
    assert order(f"{file}:rule:sign=1") == "acb"
    assert order(f"{file}:rule:sign=0.5:by=bottom_level:twice=true") == "acb"
    made = make_policy(f"{file}:rule:sign=1")
    assert made.name.endswith(":rule:sign=1")
    assert order_of(pickle.loads(pickle.dumps(made))) == "acb"
    assert policy_key(f"{file}:rule:sign=1") != policy_key(f"{file}:rule:sign=-1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("sgn=1", "unexpected keyword argument 'sgn'; options of rule: sign, by, twice"),
        ("sign=1:sign=2", "an option is given twice"),
        ("state=1", "multiple values for argument 'state'"),
    ],
)
def test_an_option_that_the_function_does_not_take_is_refused(tmp_path: Path, options: str, message: str) -> None:
    write(tmp_path / "with_options.py", OPTIONS)
    with pytest.raises(PolicyError, match=message):
        make_policy(f"{tmp_path / 'with_options.py'}:rule:{options}")


def test_a_comparison_tells_options_of_one_rule_apart(tmp_path: Path) -> None:
    write(tmp_path / "with_options.py", OPTIONS)
    specs = [f"{tmp_path / 'with_options.py'}:rule:sign={sign}" for sign in (1, -1)]
    found = compare_baselines(one_workflow(TASKS, ONE).workload, specs, cluster=ONE, objective="flow_time")
    assert set(found.mean("makespan")) == set(specs)
