"""A graph from networkx is scheduled by three policies and by search; the best schedule becomes a picture."""

import argparse
from pathlib import Path

import networkx as nx

import dagsched


def build() -> nx.DiGraph:
    """A pipeline for three regions: fetch, clean, train on the wide node, and one report at the end."""
    graph = nx.DiGraph(name="regions")
    graph.add_node("report", duration=30, cpu=1)
    for number, region in enumerate(("north", "south", "west")):
        graph.add_node(f"fetch {region}", duration=20 + 10 * number, cpu=1)
        graph.add_node(f"clean {region}", duration=60, cpu=2)
        graph.add_node(f"train {region}", duration=200 - 50 * number, cpu=6)
        graph.add_node(f"plot {region}", duration=40, cpu=1)
        graph.add_edge(f"fetch {region}", f"clean {region}", bytes=2e9)  # takes time between groups of nodes
        graph.add_edge(f"clean {region}", f"train {region}", bytes=1e9)
        graph.add_edge(f"train {region}", "report")
        graph.add_edge(f"clean {region}", f"plot {region}")
        graph.add_edge(f"plot {region}", "report")
    return graph


def main() -> None:
    """Schedule, check, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="runs/examples", help="folder of the picture")
    out = Path(parser.parse_args().out)

    workload = dagsched.Workload("mine", (dagsched.Workflow.from_networkx(build()),))
    groups = (dagsched.NodeGroup("narrow", 1, {"cpu": 4}), dagsched.NodeGroup("wide", 1, {"cpu": 12}))
    cluster = dagsched.Cluster(groups, bandwidth=1e8)  # bytes/s between groups
    schedules = {}
    for policy in ("sjf", "critical-path", "heft", "mcts-rules:simulations=50"):
        schedules[policy] = dagsched.replay(workload, cluster, policy=policy)
        dagsched.validate(schedules[policy])
        print(f"{policy:26} {schedules[policy].makespan:7.1f} s")
    best = min(schedules, key=lambda policy: schedules[policy].makespan)
    out.mkdir(parents=True, exist_ok=True)
    schedules[best].plot().savefig(out / "gantt.png", dpi=120)
    print(f"The Gantt chart of {best} is in {out / 'gantt.png'}.")


if __name__ == "__main__":
    main()
