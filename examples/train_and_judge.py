"""Ten seconds of training on synthetic builds, then a fair judgement on problems that chose nothing (needs torch)."""

import argparse
from pathlib import Path

from dagsched.generate.suite import Suite
from dagsched.learn.benchmark import benchmark
from dagsched.learn.train_config import TrainConfig
from dagsched.learn.trainer import Trainer
from dagsched.models.checkpoint import load_checkpoint
from dagsched.shipped import shipped


def main() -> None:
    """Train, look at what was learned, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="runs/examples/train-and-judge", help="run folder")
    out = Path(parser.parse_args().out)

    # an evolution strategy changes the weights of a linear priority that starts as critical path
    config = TrainConfig.load(shipped("workloads/train/first.yaml"))
    if not (out / "best").exists():
        Trainer(config, out=out).run()

    learned = load_checkpoint(out / "best")
    print("Features of largest weight:")
    for name, weight in sorted(learned.priority.items(), key=lambda item: -abs(item[1]))[:5]:
        print(f"  {weight:+8.3f}  {name}")

    rules = ("lft", "critical-path", "fcfs")
    found = benchmark(out / "best", Suite.load("build"), split="test", limit=100, rules=rules)
    print("Makespan on 100 test builds, against each rule, with 95% intervals:")
    for rule, difference in found.against.items():
        print(f"  {rule:14} {difference}")
    print("These builds are synthetic. On a real one such gains did not hold: docs/results.md.")


if __name__ == "__main__":
    main()
