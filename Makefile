# Two commands matter: `make demo` and `make test`. Each does its whole set-up.
.DELETE_ON_ERROR:
.PHONY: demo test lint bench coverage-study format lock schemas suite wheel clean sandbox-ready bubblewrap

PYTHON ?= python3
VENV := .venv
BENCH_VENV := .venv-bench
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
SOURCES := diagnose_bench scoring tests examples bench studies hatch_build.py

demo: $(VENV)/runtime.stamp sandbox-ready
	$(BIN)/diagnose-bench demo --out runs/demo

test: $(VENV)/dev.stamp bubblewrap
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/dev.stamp
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The libraries that we are compared with live in an environment of their own.
bench: $(BENCH_VENV)/bench.stamp bubblewrap
	$(BENCH_VENV)/bin/python -m bench

# Minutes to an hour; make test runs a small seeded version.
coverage-study: $(VENV)/dev.stamp
	$(BIN)/python -m studies.coverage

format: $(VENV)/dev.stamp
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

schemas: $(VENV)/dev.stamp
	$(BIN)/python -m diagnose_bench.schemas --write

# The bundled suite out of its specifications: same specifications, same bytes.
suite: $(VENV)/runtime.stamp
	$(BIN)/python -m diagnose_bench.reconstruct ground_truth/postmortems/specs snapshots/postmortems ground_truth/postmortems

docs: $(VENV)/dev.stamp
	$(BIN)/python tests/command_reference.py

wheel: $(VENV)/runtime.stamp
	$(BIN)/python -m hatchling build -t wheel

# Needs pip-tools; the locks name neither an index nor a folder of this machine.
COMPILE := pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-emit-trusted-host --strip-extras --allow-unsafe --no-header --no-config --build-deps-for editable
lock:
	$(COMPILE) -o requirements.txt pyproject.toml
	$(COMPILE) --extra dev -c requirements.txt -o requirements-dev.txt pyproject.toml
	$(COMPILE) -o diagnose_bench/toolbox/requirements.txt diagnose_bench/toolbox/requirements.in
	$(COMPILE) --extra bench -c requirements.txt -o requirements-bench.txt pyproject.toml

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "diagnose_bench needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12"; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "No venv module. Debian/Ubuntu: sudo apt-get install python3-venv"; exit 2; }

$(VENV)/runtime.stamp: requirements.txt pyproject.toml hatch_build.py | $(VENV)/bin/python
	$(PIP) install --require-hashes -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.stamp: requirements-dev.txt $(VENV)/runtime.stamp
	$(PIP) install --require-hashes -r requirements-dev.txt
	@touch $@

$(BENCH_VENV)/bench.stamp: requirements-bench.txt pyproject.toml | $(VENV)/bin/python
	@$(BIN)/python -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements-bench.txt
	$(BENCH_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation -e .
	@touch $@

# The shell that agents get is a bubblewrap sandbox, else a Landlock one; with neither nothing is run.
sandbox-ready: $(VENV)/runtime.stamp
	@command -v bwrap >/dev/null || { \
	  if $(BIN)/python -m diagnose_bench.sandbox.ready landlock; then \
	    echo "bubblewrap is not installed; the sandbox is Landlock, which is weaker (docs/threat-model.md)."; \
	  elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing bubblewrap (the sandbox)"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null; \
	  else \
	    echo "The sandbox needs bubblewrap. Install it and call make again: sudo apt-get install bubblewrap"; exit 2; \
	  fi; \
	}

# The tests hold bubblewrap to its promises, too: they need it.
bubblewrap:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing bubblewrap (the tests try it)"; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq bubblewrap >/dev/null; \
	  else \
	    echo "The tests need bubblewrap. Install it and call make again: sudo apt-get install bubblewrap"; exit 2; \
	  fi; \
	}

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
