# make demo   set up a virtual environment (once) and run the demo
# make lab    set up (once), build the viewer, and open JupyterLab on the tour (needs Node.js 20)
# make test   set up (once) and run every test, the browser's too (needs Node.js 20 and Chromium)
# make extension  build the viewer again after a change of extension/
# make bench  the figures of the README, printed side by side
# make picture  take the README's pictures again (needs Chromium)
# make clean  remove the virtual environment and everything built

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NODE_MODULES := extension/node_modules/.ready
VIEWER := explorer/labextension/static/report.html
# Where there is no Node.js, what can do without the viewer is made without it, and says so.
VIEWER_IF_NODE := $(if $(shell command -v node),$(VIEWER),without-viewer)
export PATH := $(abspath $(BIN)):$(PATH)

.PHONY: demo lab test extension bench picture clean without-viewer
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
	@# JupyterLab reads what is built here, so that a build shows without another installation
	mkdir -p $(VENV)/share/jupyter/labextensions
	ln -sfn $(abspath explorer/labextension) $(VENV)/share/jupyter/labextensions/torch-explorer
	@touch $@

$(NODE_MODULES): extension/package.json extension/yarn.lock $(READY)
	@node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' 2>/dev/null \
	  || { echo "Node.js 20 or newer is needed to build the viewer in a checkout (a released package holds it built)"; exit 1; }
	cd extension && jlpm install --immutable
	@touch $@

$(VIEWER): $(NODE_MODULES) $(shell find extension/src extension/style extension/schema -type f) extension/bundle.mjs extension/webpack.config.js extension/tsconfig.json
	cd extension && jlpm build:prod

extension: $(VIEWER)

without-viewer:
	@echo "note: no Node.js here: pages are made without the viewer (Node.js 20 and \`make extension\` build it)"

demo: $(READY) $(VIEWER_IF_NODE)
	$(BIN)/explorer demo

lab: $(READY) $(VIEWER)
	$(BIN)/jupyter lab notebooks/tour.ipynb

test: $(READY) $(VIEWER)
	@echo "==> static checks"
	$(BIN)/ruff check explorer tests benchmarks extension
	$(BIN)/mypy --strict explorer/core explorer/ir explorer/pipeline.py
	cd extension && jlpm check
	@echo "==> tests of the viewer"
	cd extension && jlpm test
	@echo "==> tests (2 processes)"
	$(BIN)/python -m pytest -n 2 -q tests
	@echo "==> tests in a browser"
	cd extension && jlpm e2e

bench: $(READY) $(VIEWER_IF_NODE)
	$(BIN)/python -m benchmarks

picture: $(READY) $(VIEWER)
	cd extension && PICTURES=$(abspath docs) jlpm picture

clean:
	rm -rf $(VENV) demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf extension/node_modules extension/lib explorer/labextension
