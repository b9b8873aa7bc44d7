"""The Gymnasium environment: an agent that takes any legal action at random, beside a rule on the same problems."""

import gymnasium
import numpy as np

import dagsched.env  # noqa: F401 - registers dagsched/Workflow-v0


def episode(env: gymnasium.Env, problem: int, choose) -> float:
    """Run problem ``problem`` of the suite to its end; the makespan over its lower bound."""
    _, info = env.reset(options={"index": problem})
    over = False
    while not over:
        _, _, over, _, info = env.step(choose(np.flatnonzero(info["action_mask"])))
    return info["metrics"]["ratio_lb"]


def main() -> None:
    """Synthetic builds of the validation split; WAIT is never offered."""
    rng = np.random.default_rng(0)
    env = gymnasium.make(
        "dagsched/Workflow-v0", suite="build", split="validation", base="lft", allow_wait=False, skip_forced=True
    )
    print("problem  random agent  base rule (lft)   makespan over the lower bound")
    at_random, by_rule = [], []
    for problem in range(30):
        at_random.append(episode(env, problem, rng.choice))
        by_rule.append(episode(env, problem, lambda legal: legal[0]))  # action 0 is what the base rule would run
        if problem < 5:
            print(f"{problem:7}  {at_random[-1]:12.3f}  {by_rule[-1]:15.3f}")
    print(f"   mean  {np.mean(at_random):12.3f}  {np.mean(by_rule):15.3f}   of {len(by_rule)} problems")
    worse = np.mean(np.array(at_random) / np.array(by_rule)) - 1
    print(f"The random agent needs {worse:.0%} more time. So much is to be learned before a rule is reached.")


if __name__ == "__main__":
    main()
