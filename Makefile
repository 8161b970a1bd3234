# Every target builds what it needs in .venv. PYTHON=... chooses the Python; otherwise it is the
# newest one that fits.
FOUND := $(shell PYTHON='$(PYTHON)' .ci/python)
BIN = .venv/bin
BUILT = .venv/.built-with-$(firstword $(FOUND))

.PHONY: demo test test-all lint bench lock clean

$(BUILT): pyproject.toml requirements.txt requirements.lock requirements-embedded.txt
	@test -n '$(FOUND)'
	$(lastword $(FOUND)) -m venv --clear .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements-embedded.txt
	$(BIN)/pip install --quiet --no-deps --editable .
	touch $@

demo: $(BUILT)
	$(BIN)/python -m adapter_bert_tf.demo

test: $(BUILT)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(BUILT)
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(BUILT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(BUILT)
	$(BIN)/python benchmarks/run.py

# The newest versions that requirements.txt allows, for all systems and Pythons.
lock:
	$(lastword $(FOUND)) -m venv .venv-lock
	.venv-lock/bin/pip install --quiet uv
	UV_CUSTOM_COMPILE_COMMAND="make lock" .venv-lock/bin/uv pip compile --quiet --upgrade --universal \
		--python-version 3.11 --generate-hashes --no-annotate --extra dev \
		--output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv .venv-lock .venv-peer
