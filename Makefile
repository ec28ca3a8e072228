# Everything a contributor does has a name here. `make` alone lists the names.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.holdfast-ready

# The first interpreter that runs and is new enough; `make setup PYTHON=…` chooses another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
	if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo "$$name"; break; fi; done)

# `make test SEED=7` replays seed 7. `REPORT=file.xml` keeps the counts for a machine to read.
SEED ?=
REPORT ?=
ifneq ($(SEED),)
export HOLDFAST_SEED := $(SEED)
endif
# Tests start hundreds of processes; each would compile the package anew, which takes it a second.
unexport PYTHONDONTWRITEBYTECODE
PYTEST = $(BIN)/python -m pytest $(if $(REPORT),--junitxml=$(REPORT))

# The slower tiers may be empty: pytest says so with 5, which is no failure of the code.
OR_EMPTY = || { code=$$?; test $$code -eq 5 && echo "no tests in this tier"; }

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP) ## make .venv with the package and its tools; quick when up to date

$(STAMP): pyproject.toml src/holdfast/version.py
	@test -n "$(PYTHON)" || { echo "holdfast needs Python 3.11 or newer on the PATH" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || "$(PYTHON)" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The queues of others, apart from ours. Tests that need them skip where HOLDFAST_PEERS_PYTHON names
# nobody that has them, and say so; where it names one, they must pass.
PEERS := .peers
PEERS_STAMP := $(PEERS)/.ready

.PHONY: peers
peers: $(PEERS_STAMP) ## make .peers with the queues that the bench measures beside ours

$(PEERS_STAMP): .ci/peers.txt
	@test -n "$(PYTHON)" || { echo "holdfast needs Python 3.11 or newer on the PATH" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --retries 5 \
		--requirement .ci/peers.txt
	@touch $@

.PHONY: demo
demo: $(STAMP) ## the first minute with holdfast
	$(BIN)/holdfast demo

.PHONY: check
check: lint types contracts docs ## lint, types, import contracts, stale docs

.PHONY: lint
lint: $(STAMP)
	$(BIN)/ruff check .

.PHONY: types
types: $(STAMP)
	$(BIN)/mypy

# Without its cache: that goes by modification times alone, and a gate must read the files.
.PHONY: contracts
contracts: $(STAMP)
	$(BIN)/lint-imports --no-cache --no-logo

# Every document made from code is compared here, one line each; `bless` has the line that writes it.
.PHONY: docs
docs: $(STAMP)
	$(BIN)/holdfast states --check docs/states.md
	$(BIN)/holdfast config show --check docs/settings.md

.PHONY: test
test: $(STAMP) ## the fast tier; SEED=n replays
	$(PYTEST) --numprocesses=auto --dist=worksteal

.PHONY: test-slow
test-slow: $(STAMP) ## the slow tier: more examples, more seeds
	$(PYTEST) -m "slow and not soak" --hypothesis-profile=slow \
		--numprocesses=auto --dist=worksteal --durations=30 --durations-min=5 $(OR_EMPTY)

.PHONY: soak
soak: $(STAMP) ## long runs from a fresh seed, which is printed; SEED=n replays
	HOLDFAST_SEED="$${HOLDFAST_SEED:-$$RANDOM$$RANDOM}" \
		$(PYTEST) -m soak --hypothesis-profile=soak -o faulthandler_timeout=14400 $(OR_EMPTY)

# One seed with FAULTS and MODE as a failure prints them, or a hundred without a SEED.
SIM = $(BIN)/python -m holdfast.testing.sim run

.PHONY: sim
sim: $(STAMP) ## simulate clusters; SEED=n FAULTS=3,17 MODE=safety repeats a failure
	$(SIM) $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(MODE),--mode $(MODE))

.PHONY: sim-soak
sim-soak: $(STAMP) ## 10,000 seeds and 1,000 simulated hours; one to two hours on two cores
	$(SIM) --first $${SEED:-$$RANDOM$$RANDOM} --seeds 10000 --summary sim-soak.json

.PHONY: plants
plants: $(STAMP) ## plant every known mistake in a copy and see it caught; writes docs/plants.md
	$(BIN)/python -m holdfast.testing.planting --write docs/plants.md

.PHONY: bench
bench: $(STAMP) ## measure this machine
	$(BIN)/holdfast bench

.PHONY: bless
bless: $(STAMP) ## rewrite expected files and made documents; read the diff
	$(PYTEST) --bless
	$(BIN)/holdfast states --write docs/states.md
	$(BIN)/holdfast config show --write docs/settings.md

.PHONY: clean
clean: ## remove what builds and test runs left; .venv stays
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
