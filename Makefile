# Every target sets up what it needs. Set PYTHON to choose the interpreter: make test PYTHON=python3.12
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
# The stamp names this folder, so that a checkout that was moved or copied gets its environment anew.
HERE := $(shell pwd | cksum | cut -d' ' -f1)
CORE_STAMP := $(VENV)/.installed-core-$(HERE)
TEST_STAMP := $(VENV)/.installed-test-$(HERE)
BENCH_STAMP := $(VENV)/.installed-bench-$(HERE)
# Trained policies stand in the demo where they ship.
COMMA := ,
LEARNED := $(if $(wildcard checkpoints/default/index.json),evolved$(COMMA)ppo$(COMMA))
DEMO := workloads/wfcommons --cluster small --arrivals poisson:0.8 --deadlines 3 --replays 20 --objective flow_time \
  --policies mcts:simulations=32,$(LEARNED)critical-path,heft,peft,min-min,max-min,sufferage,tetris,srw,weighted-fair,edf,sjf,fcfs,random
PYTEST := $(RUN) -m pytest -n 2 --dist loadfile

# light: the core alone, without what training needs.
.PHONY: demo light test test-all bench lint format clean

demo: $(CORE_STAMP)
	$(RUN) -m dagsched compare $(DEMO) --jobs 2 --out runs/demo
	@echo "Open runs/demo/report.html in a browser; the numbers are in runs/demo/results.csv."

test: lint
	$(RUN) -m dagsched warmup
	$(PYTEST)

light:
	@test -d .venv-light || $(PYTHON) -m venv .venv-light
	.venv-light/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	.venv-light/bin/python tests/light.py

test-all: lint
	$(RUN) -m dagsched warmup
	$(PYTEST) -m "slow or not slow"

bench: $(BENCH_STAMP)
	$(RUN) -m tests.bench

lint: $(TEST_STAMP)
	$(RUN) -m ruff check dagsched tests examples
	$(RUN) -m ruff format --check dagsched tests examples
	$(RUN) -m mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(TEST_STAMP)
	$(RUN) -m ruff check --fix dagsched tests examples
	$(RUN) -m ruff format dagsched tests examples

clean:
	rm -rf $(VENV) .venv-light build dist *.egg-info

$(CORE_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "dagsched needs Python 3.11 or newer, $(PYTHON) is older or missing; use: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments; install them first (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@test -e "$@" || $(RUN) -c 'import pip' 2>/dev/null || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch "$@"

$(TEST_STAMP): $(CORE_STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch "$@"

$(BENCH_STAMP): $(TEST_STAMP)
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,bench]' || \
	  { echo "anrg-saga needs pygraphviz, which is compiled: install a C compiler and graphviz headers (apt install graphviz-dev)" >&2; exit 1; }
	@touch "$@"
