# Two commands on a machine with nothing but python3, pip and make: `make demo` and `make test`.
# PYTHON=/path/to/python chooses the interpreter; otherwise scripts/pythons finds one.

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-second lint bench bench-compare bench-memory bench-quality bench-record bench-scale \
	bench-storm equivalence torture soak size docs requirements clean

BIN := .venv/bin
SOURCES := protocol client daemon tests

# where the environment forbids it, every start of a daemon would compile all of it anew
unexport PYTHONDONTWRITEBYTECODE
export PYTHON COLLECTIONS

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv from uv.lock, with everything a developer needs
	@scripts/environment .venv

demo: setup ## a tour on a sample vault; leaves nothing behind
	@$(BIN)/wikid demo

test: lint ## every check: lint, then the tests
	@$(BIN)/python -m pytest

test-second: ## the tests on a second minor version of Python, where there is one
	@scripts/test-second

lint: setup ## ruff, mypy --strict (for Windows too) and the import rules
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy $(SOURCES)
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 protocol client daemon
	@$(BIN)/lint-imports

bench: setup ## how fast: recall and indexing on this machine
	@$(BIN)/python -m wikid_daemon.bench speed --json

bench-scale: setup ## how speed and memory grow from 1,000 to 50,000 pages; takes many minutes
	@$(BIN)/python -m wikid_daemon.bench speed --scale

bench-storm: setup ## what a caller feels while thousands of files change; takes minutes
	@$(BIN)/python -m wikid_daemon.bench storm

bench-memory: setup ## memory over 100,000 embeddings of mixed lengths; about an hour; EMBEDDINGS=number for another run
	@$(BIN)/python -m wikid_daemon.bench memory $(if $(EMBEDDINGS),--embeddings $(EMBEDDINGS))

bench-record: setup ## keep what the hot paths cost at this commit, for bench-compare; minutes; FORCE=1 for an uncommitted tree
	@$(BIN)/python -m wikid_daemon.bench record $(if $(FORCE),--force)

bench-compare: setup ## fails where a hot path costs a fifth more processor time than was recorded; about a minute
	@$(BIN)/python -m wikid_daemon.bench compare

equivalence: setup ## the same calls by every way there is to the daemon: how many answers are the same
	@$(BIN)/python -m pytest -q tests/e2e/test_equivalence.py

torture: setup ## crashes, damage, random histories and 100,000 wild inputs, for an hour or so
	@$(BIN)/python tests/torture

soak: setup ## 64 clients at once, then calls of every kind: how fast, and what stays behind; MINUTES=30
	@$(BIN)/python tests/torture/soak.py --minutes $(or $(MINUTES),30)

bench-quality: setup ## every gate of a release, measured anew; COLLECTIONS=folder of BEIR folders, OUT=file, CACHE=folder
	@$(BIN)/python -m wikid_daemon.bench gates $(if $(OUT),--out "$(OUT)") $(if $(CACHE),--cache "$(CACHE)")

size: ## what the daemon takes on disk, without developer tools and model
	@scripts/size

docs: setup ## write docs/protocol.md and docs/openrpc.json anew from the method table
	@$(BIN)/wikid protocol --markdown > docs/protocol.md
	@$(BIN)/wikid protocol --openrpc > docs/openrpc.json

requirements: ## write requirements/daemon.txt anew from uv.lock, for plain pip
	@{ echo '# Written by `make requirements` from uv.lock; install with pip --no-deps.' && \
		scripts/uv export --quiet --frozen --no-dev --extra daemon --no-emit-project --no-annotate --no-header \
		--python "$$(scripts/pythons first)"; } > requirements/daemon.new
	@mv requirements/daemon.new requirements/daemon.txt

clean: ## remove environments, caches and build products
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find $(SOURCES) -name __pycache__ -type d -exec rm -rf {} +
