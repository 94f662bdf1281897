# Everything happens in .venv, which is made from nothing and brought up to date whenever
# pyproject.toml or constraints.txt changes. Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install -c constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run check test chaos bench generate verify constraints clean

help:
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/run.stamp ## the service from nothing; flags for `runlease serve` with ARGS="..."
	$(BIN)/runlease serve $(ARGS)

check: $(VENV)/dev.stamp ## every lint rule, formatting, strict types, import contracts, house tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/pytest tests/house

test: $(VENV)/dev.stamp ## every test but the long ones, with coverage; fails under 85 %
	$(BIN)/pytest -n 2 --dist loadfile --cov --cov-report=term:skip-covered --cov-fail-under=85

chaos: $(VENV)/dev.stamp ## the tests that take minutes: real processes, killed and stopped
	$(BIN)/pytest tests/chaos tests/client -m ''

bench: $(VENV)/dev.stamp ## throughput and latency of this machine; flags with ARGS="..."
	$(BIN)/python -m bench $(ARGS)

# Both go into an empty folder first, so that no stale file stays and a failure changes nothing.
define WRITE_GENERATED
new=$$(mktemp -d) && trap 'rm -rf "$$new"' EXIT \
&& $(BIN)/runlease openapi > "$$new/openapi.yaml" \
&& PATH="$(abspath $(BIN)):$$PATH" $(BIN)/openapi-python-client generate --meta none \
   --fail-on-warning --path "$$new/openapi.yaml" --output-path "$$new/_generated" \
   --config client/generator.yaml > "$$new/log" \
&& rm -rf "$$new/_generated/.ruff_cache" && chmod -R u=rwX,go=rX "$$new"
endef

generate: $(VENV)/dev.stamp ## write openapi.yaml from the code, and the client's part from that
	@$(WRITE_GENERATED) \
	&& rm -rf client/runlease/_generated \
	&& mv "$$new/_generated" client/runlease/ && mv "$$new/openapi.yaml" openapi.yaml

verify: $(VENV)/dev.stamp ## fail when what is generated is not what the code says
	@$(WRITE_GENERATED) \
	&& { diff -u openapi.yaml "$$new/openapi.yaml" \
	     && diff -ur -x __pycache__ client/runlease/_generated "$$new/_generated" \
	     || { echo 'not what the code says; run: make generate' >&2; exit 1; }; }

constraints: $(VENV)/dev.stamp ## pin the newest versions that pyproject.toml allows in constraints.txt
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade \
	  --no-emit-index-url --no-header --no-annotate -q -o constraints.txt

clean: ## remove the environment, caches and build results
	rm -rf $(VENV) .coverage .coverage.* htmlcov dist .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each step starts from the one before it, so that with `make -j` two pips never meet.
$(VENV)/base.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	|| { echo '$(PYTHON) is missing or older than 3.11; name a newer one: make PYTHON=python3.11' >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
	|| { echo '$(PYTHON) has no venv module; install it (Debian: apt install python3-venv)' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/run.stamp: $(VENV)/base.stamp pyproject.toml constraints.txt
	$(PIP) -e '.[service]'
	@touch $@

$(VENV)/dev.stamp: $(VENV)/run.stamp
	$(PIP) -e '.[service,dev]'
	@touch $@
