"""One small handmade file of every format: name, content, and what it must load to."""

from __future__ import annotations

import json
from pathlib import Path

PSPLIB = """\
************************************************************************
file with basedata            : hand.bas
initial value random generator: 1
************************************************************************
projects                      :  1
jobs (incl. supersource/sink ):  5
horizon                       :  9
RESOURCES
  - renewable                 :  2   R
  - nonrenewable              :  0   N
  - doubly constrained        :  0   D
************************************************************************
PROJECT INFORMATION:
pronr.  #jobs rel.date duedate tardcost  MPM-Time
    1      3      0        9        0        7
************************************************************************
PRECEDENCE RELATIONS:
jobnr.    #modes  #successors   successors
   1        1          2           2   3
   2        1          1           4
   3        1          1           5
   4        1          1           5
   5        1          0
************************************************************************
REQUESTS/DURATIONS:
jobnr. mode duration  R 1  R 2
------------------------------------------------------------------------
  1      1     0       0    0
  2      1     3       2    0
  3      1     4       1   10
  4      1     4       2    1
  5      1     0       0    0
************************************************************************
RESOURCEAVAILABILITIES:
  R 1  R 2
   12   10
************************************************************************
"""

STG = """\
          3
          0          0          0
          1          9          1          0
          2          4          1          0
          3          0          2          1          2
          4          0          1          3
# Standard Task Graph Set Project
#   Tasks             : 3 (+dummy tasks : 2)
#   Edges             : 2 / 3 (+dummy edges : 3)
# CP Length           : 9
"""

ALIBABA = """\
M1,3,j_1,,Terminated,100,160,100.0,0.3
R2_1,1,j_2,,Terminated,130,131,50.0,0.2
R2_1,1,j_1,,Terminated,120,150,100.0,0.49
M1_Stg8,2,j_2,,Terminated,120,120,200.0,0.2
task_Nzg3ODAw==,1,j_2,,Terminated,125,130,,
M1,1,j_3,,Failed,140,141,100.0,0.2
M1,,j_4,,Waiting,0,0,,
R3_1,1,j_5,,Terminated,150,151,100.0,0.2
M1,1,j_6,,Terminated,150,140,100.0,0.2
J1_2,1,j_7,,Terminated,150,160,100.0,0.2
J2_1,1,j_7,,Terminated,150,160,100.0,0.2
"""

TPCH = (
    json.dumps(
        {
            "name": "hand-0",
            "capacity": 10,
            "jobs": ["2g/q1", "5g/q3"],
            "tasks": [
                {"id": 0, "job": 0, "duration_ms": 625.5, "demand": 2, "parents": []},
                {"id": 1, "job": 0, "duration_ms": 100, "demand": 10, "parents": [0]},
                {"id": 2, "job": 1, "duration_ms": 50, "demand": 1, "parents": []},
            ],
        }
    )
    + "\n"
)

WFFORMAT_13 = json.dumps(
    {
        "name": "hand",
        "schemaVersion": "1.3",
        "workflow": {
            "executedAt": "03-23-21T06:04:36Z",
            "makespan": 20,
            "tasks": [
                {
                    "name": "split_ID1",
                    "id": "ID1",
                    "runtime": 2.5,
                    "memory": 3000,
                    "parents": [],
                    "children": ["blast_ID2"],
                    "files": [{"link": "output", "name": "a", "size": 70}, {"link": "input", "name": "x", "size": 9}],
                },
                {
                    "name": "blast_ID2",
                    "id": "ID2",
                    "runtime": 0,
                    "cores": 2,
                    "parents": ["split_ID1"],
                    "files": [{"link": "input", "name": "a", "size": 70}, {"link": "input", "name": "b", "size": 5}],
                },
            ],
        },
    }
)

WFFORMAT_15 = json.dumps(
    {
        "name": "hand",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": [
                    {"name": "split", "id": "s", "parents": [], "children": ["b"], "outputFiles": ["a"]},
                    {"name": "blast", "id": "b", "parents": ["s"], "children": [], "inputFiles": ["a"]},
                ],
                "files": [{"id": "a", "sizeInBytes": 70}],
            },
            "execution": {
                "makespanInSeconds": 20,
                "executedAt": "x",
                "tasks": [
                    {"id": "s", "runtimeInSeconds": 2.5, "memoryInBytes": 3000000},
                    {"id": "b", "runtimeInSeconds": 0, "coreCount": 2, "avgCPU": 177.2},
                ],
            },
        },
    }
)

OWN = json.dumps(
    {
        "format": "dagsched-workload",
        "version": 1,
        "name": "hand",
        "resources": ["cpu", "memory"],
        "workflows": [
            {
                "name": "w",
                "arrival": 1.5,
                "deadline": 90,
                "tasks": [
                    {"id": "a", "duration": 2},
                    {"id": "b", "duration": 0.1, "demand": {"memory": 5e9}, "parents": ["a"], "edge_bytes": {"a": 7}},
                ],
            }
        ],
    }
)

SAMPLES = {
    "hand.sm": PSPLIB,
    "hand.stg": STG,
    "hand.csv": ALIBABA,
    "hand.jsonl": TPCH,
    "hand13.json": WFFORMAT_13,
    "hand15.json": WFFORMAT_15,
    "own.json": OWN,
}


def write(folder: Path, name: str, content: str | bytes | None = None) -> Path:
    """Put a sample, or other content, under a name."""
    path = folder / name
    content = SAMPLES[name] if content is None else content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
