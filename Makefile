# One command for each thing one wants from a clone; `make` alone lists them.
#
# A stamp in .venv says that an installation is complete. It is older than what it was
# built from when that changes, and only then pip runs again.

PY := .venv/bin/python
ARGS ?=
BUILT_FROM := pyproject.toml setup.py locked.txt .ci/locked.py kit/memory_order.c kit/exchange/execution/hops.c kit/exchange/ports/pump.c kit/training/worker/gather.c .ci/venv
export PYTHON

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
# Hundreds of processes import the package; each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo lab test test-fast test-arm test-torch check format docs bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile
	@echo 'ARGS="..." is passed on; PYTHON=... picks the interpreter of a new .venv.'

demo: .venv/ready-demo ## train on a cluster of this machine and write a report
	@$(PY) -m kit demo $(ARGS)

lab: .venv/ready-lab ## open the notebooks in JupyterLab
	@$(PY) -m jupyter lab --notebook-dir=notebooks $(ARGS)

test: .venv/ready-test ## run all tests on all cores; installs what they need
	@.ci/system-packages
	@.ci/test $(ARGS)

test-fast: .venv/ready-test ## run the tests that are not marked slow
	@$(PY) -m pytest -m "not slow" -n $$(nproc) $(ARGS)

test-arm: .venv/ready-test ## run tests of the core on an emulated ARM, as root
	@.ci/arm -m "not slow" -n $$(nproc) tests/exchange tests/wire $(ARGS)

test-torch: .venv/ready-test ## run the tests that need torch, with one of their own
	@.ci/torch $(ARGS)

check: .venv/ready-dev ## lint, format and types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy

format: .venv/ready-dev ## put imports and layout right
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

docs: .venv/ready-docs ## build the site in docs/_build/html; runs the lessons
	$(PY) -m sphinx -W --keep-going $(ARGS) docs docs/_build/html

bench: .venv/ready-demo ## compare with the peers that are installed
	@$(PY) -m benchmarks.run --quick $(ARGS)

clean: ## remove .venv, caches and builds
	rm -rf .venv build dist docs/_build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find kit widgets tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

# What an extra holds is installed with it.
HELD_BY_dev := test demo
HELD_BY_test := demo
HELD_BY_lab := demo
HELD_BY_docs := demo
HELD_BY_dev,docs := dev docs $(HELD_BY_dev)

.venv/ready-%: $(BUILT_FROM)
	@.ci/venv $*
	@touch $@ $(addprefix .venv/ready-,$(HELD_BY_$*))
