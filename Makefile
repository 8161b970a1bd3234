# Every target builds what it needs in .venv; Python 3.11 is all that has to be there.
PYTHON ?= python3.11
BIN = .venv/bin

.PHONY: demo test test-all lint bench clean

.venv/.installed: pyproject.toml requirements.txt requirements-dev.txt requirements-embedded.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -r requirements.txt -r requirements-dev.txt
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements-embedded.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

demo: .venv/.installed
	$(BIN)/python -m adapter_bert_tf.demo

test: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: .venv/.installed
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.installed
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv .venv-peer
