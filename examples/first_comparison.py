"""Recorded workflows arrive at four nodes: which rule keeps mean flow time lowest? Writes a report."""

import argparse

import dagsched


def main() -> None:
    """Compare six rules on the same twelve replays."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="runs/examples/first-comparison", help="folder of the report")
    out = parser.parse_args().out

    comparison = dagsched.compare_baselines(
        "workloads/wfcommons",  # recorded scientific workflows; the shipped ones, where there is no such folder
        ["srw*cp", "heft", "critical-path", "tetris", "sjf", "fcfs"],
        cluster="small",
        arrivals="poisson:0.8",  # redraws the arrivals in every replay
        replays=12,
        objective="flow_time",
    )
    flow_time = comparison.mean("mean_flow_time")
    best = min(flow_time.values())
    for policy in comparison.ranking:
        print(f"{policy:14} {flow_time[policy]:7.1f} s  +{flow_time[policy] / best - 1:.0%}")
    print(comparison.verdict)
    comparison.write(out)
    print(f"Open {out}/report.html in a browser.")


if __name__ == "__main__":
    main()
