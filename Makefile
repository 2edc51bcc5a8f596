# The two commands: `make run` and `make test`. They need Python 3.11 or newer with venv, and nothing else.
# Both install the locked packages into .venv first, and again only when a lock has changed.

PYTHON ?= python3
UV ?= uv
UP_ARGS ?=
TEST_ARGS ?=
SEEDS ?= 1
CELLS ?=
POSTGRES ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.txt

.DEFAULT_GOAL := run
.PHONY: run test test-engine test-console test-browser test-contract test-matrix check screenshots cases cases-judged install install-dev lock bench bench-pages bench-peers bench-decisions bench-viewers

run: install
	@$(BIN)/python manage.py up $(UP_ARGS)

test: install-dev
ifeq ($(TEST_ARGS),)
	@mkdir -p var/test; echo "Two halves run side by side. The output of the other one comes at the end."; \
	$(MAKE) --no-print-directory test-engine >var/test/engine.txt 2>&1 & other=$$!; \
	code=0; $(MAKE) --no-print-directory test-console || code=$$?; \
	echo "The other half:"; wait $$other || code=$$?; cat var/test/engine.txt; exit $$code
else
	$(BIN)/python -m pytest -m "not matrix" $(TEST_ARGS)
endif

# The two halves of the suite: each starts servers of its own.
test-engine:
	$(BIN)/python -m pytest -m "not matrix" tests/scenarios tests/engine

test-console:
	$(BIN)/python -m pytest -m "not matrix" --ignore tests/scenarios --ignore tests/engine

test-browser: install-dev
	$(BIN)/python -m pytest -m "browser and not matrix" $(TEST_ARGS)

# The contract of the store, on the embedded server or, with POSTGRES=15, on Debian's.
test-contract: install-dev
	$(if $(POSTGRES),SIGNALBOX_POSTGRES_BIN=/usr/lib/postgresql/$(POSTGRES)/bin) $(BIN)/python -m pytest tests/contract $(TEST_ARGS)

# SEEDS="1 2 3": the crash matrix once for each. CELLS="P16-F2 P17-F1": only these of its cells, and nothing else.
test-matrix: export MATRIX_SEEDS = $(SEEDS)
test-matrix: export MATRIX_CELLS = $(CELLS)
test-matrix: install-dev
	$(BIN)/python -m pytest -m matrix $(if $(CELLS),tests/matrix/test_matrix.py) $(TEST_ARGS)

# Our own figures in about two minutes. The other one installs the peers once, into an environment of their own.
PEERS := var/bench/peers
bench: install-dev
	@$(BIN)/python -m bench.own

bench-decisions: install-dev
	@$(BIN)/python -m bench.decisions

# What a change costs one web process with a thousand viewers, and how soon it is on a screen.
bench-viewers: install-dev
	@$(BIN)/python -m bench.viewers

# What each page costs at 200,000 runs and 2 million receipts. PAGES_ARGS="--only inbox" shows the slowest statements.
PAGES_ARGS ?=
bench-pages: install-dev
	@$(BIN)/python -m bench.pages $(PAGES_ARGS)

bench-peers: install-dev
	@if ! cmp -s bench/requirements-peers.txt $(PEERS)/installed.txt; then \
	  echo "Installing the peers into $(PEERS)."; rm -rf $(PEERS) && $(PYTHON) -m venv $(PEERS) && \
	  $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement bench/requirements-peers.txt && \
	  cp bench/requirements-peers.txt $(PEERS)/installed.txt; \
	fi
	@$(BIN)/python -m bench.peers --python $(PEERS)/bin/python

# The pictures of the documentation, taken anew from real processes; and every page in both themes at three widths, to be
# looked at, in var/screenshots. LOOKS="run- stop": of these only the pages whose names begin so.
screenshots: export LOOKS ?=
screenshots: install-dev
	$(BIN)/python -m pytest tests/journey/screenshots.py tests/pages/looks/screenshots.py

# Forty prepared cases for somebody who works them with only the browser: the console, a sheet of what is to be achieved, and
# at the end what came of each. `make cases-judged` says it meanwhile, from another terminal.
cases: install-dev
	@$(BIN)/python -m tests.cases

cases-judged:
	@$(BIN)/python -m tests.cases judge

# What production would set, for `check --deploy`. Nothing connects to these addresses.
SAMPLE_KEY = $$($(BIN)/python -c 'import secrets; print(secrets.token_urlsafe(48))')
PRODUCTION = SIGNALBOX_PRODUCTION=1 SIGNALBOX_ALLOWED_HOSTS=signalbox.example SIGNALBOX_BROKER_URL=redis://broker/0 \
  SIGNALBOX_DATABASE_URL=postgresql://signalbox@database/signalbox \
  SIGNALBOX_SECRET_KEY=$(SAMPLE_KEY) SIGNALBOX_MASTER_KEY=$(SAMPLE_KEY)

check: install-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	SIGNALBOX_DB_POOL=false $(BIN)/python -W "ignore:Got an error checking" manage.py makemigrations --check --dry-run
	$(PRODUCTION) $(BIN)/python manage.py check --deploy --fail-level WARNING

install:
	$(call install_lock,requirements.lock,requirements.lock)

# The development lock holds the same versions as the other one, and more packages.
install-dev:
	$(call install_lock,requirements-dev.lock,requirements.lock requirements-dev.lock)

# $(1): the lock to install; $(2): the locks whose packages are there afterwards.
define install_lock
@if ! grep -qsxF "$$(cksum $(1))" $(INSTALLED) || ! $(BIN)/python -c "" 2>/dev/null; then \
  $(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || \
    { echo "$(PYTHON) is not Python 3.11 or newer. Name one that is: make PYTHON=python3.12"; exit 1; }; \
  echo "Installing the packages of $(1) into $(VENV). It takes about a minute, once."; \
  rm -f $(INSTALLED) && \
  $(PYTHON) -m venv $(VENV) && \
  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $(1) && \
  cksum $(2) > $(INSTALLED); \
fi
endef

# Needs uv.
lock:
	$(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	  --custom-compile-command "make lock" --quiet --output-file requirements.lock
	$(UV) pip compile pyproject.toml --extra dev --constraint requirements.lock --universal --python-version 3.11 \
	  --generate-hashes --custom-compile-command "make lock" --quiet --output-file requirements-dev.lock
