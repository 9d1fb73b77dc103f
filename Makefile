# make demo   set up a virtual environment (once) and run the demo
# make test   set up (once) and run every test
# make bench  the figures of the README, printed side by side
# make picture  take the README's picture again (needs Chromium)
# make clean  remove the virtual environment and everything built

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test bench picture clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# make/make/p' Makefile

$(READY): pyproject.toml
	@echo "==> setting up $(VENV) with $$($(PYTHON) --version) (once; a few minutes, mostly PyTorch)"
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "Python 3.11 to 3.13 is needed; name one with: make PYTHON=python3.11"; exit 1; }
	@command -v g++ >/dev/null || echo "note: no g++ here: generated C++ cannot be built and programs will run eagerly"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# the tested torch first: asked for together with an open range, pip fetches the newest one as well
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['tested'])" \
	  | xargs $(BIN)/python -m pip install
	$(BIN)/python -m pip install --editable '.[dev,tested]'
	@touch $@

demo: $(READY)
	$(BIN)/explorer demo

test: $(READY)
	@echo "==> static checks"
	$(BIN)/ruff check explorer tests benchmarks
	$(BIN)/mypy --strict explorer/core explorer/ir explorer/pipeline.py
	@echo "==> tests (2 processes)"
	$(BIN)/python -m pytest -n 2 -q tests

bench: $(READY)
	$(BIN)/python -m benchmarks

picture: $(READY)
	$(BIN)/python docs/picture.py

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
