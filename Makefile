# Everything below needs only Python 3.11+, its venv module and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# pip shows what it does where somebody watches, and only what goes wrong elsewhere.
PIP    := -m pip install $(shell test -t 2 || echo --quiet)

.PHONY: setup run test clients lint format bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	@echo "Making a Python environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP) --upgrade pip
	@echo "Installing what dspark-tui and its tests need: a minute or more"
	$(BIN)/python $(PIP) --editable '.[dev]'
	@touch $(STAMP)

run: setup
	$(BIN)/dspark-tui

# In the order of their folders: the slow end-to-end tests first, quick ones fill up the end.
test: lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Other people's clients, in environments of their own: they pin what ours must not be bound to.
clients: setup
	@echo "Installing other people's clients: some minutes"
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/python $(PIP) litellm llm instructor 'pydantic-ai-slim[openai]'
	$(PYTHON) -m venv .venv-aider
	.venv-aider/bin/python $(PIP) aider-chat || echo "aider can't be installed here"
	$(BIN)/python -m pytest tests/e2e/clients tests/e2e/test_clients.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m tests.benchmarks

clean:
	rm -rf $(VENV) .venv-clients .venv-aider build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
