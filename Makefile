# Everything below needs only Python 3.11+, its venv module and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: setup run test clients lint format bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

run: setup
	$(BIN)/dspark-tui

# In the order of their folders: the slow end-to-end tests first, quick ones fill up the end.
test: lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# Other people's clients, in environments of their own: they pin what ours must not be bound to.
clients: setup
	$(PYTHON) -m venv .venv-clients
	.venv-clients/bin/pip install --quiet litellm llm instructor 'pydantic-ai-slim[openai]'
	$(PYTHON) -m venv .venv-aider
	.venv-aider/bin/pip install --quiet aider-chat || echo "aider can't be installed here"
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
