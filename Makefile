# make demo   set up a virtual environment (once) and run the demo
# make lab    set up (once), build the viewer, and open JupyterLab on the tour
# make test   set up (once) and run a sample of the tests: none that is marked slow, six cases of each, one browser file
# make test-all   set up (once) and run all tests
# make extension  build the viewer again after a change of extension/
# make docs   the documentation as a site, in build/docs: the course, the guide to the viewer, answers, the API
# make bench  the figures of the README, printed side by side
# make picture  take the README's pictures again
# make clean  remove the virtual environment and everything built
#
# Each says first what it needs; Node.js, Chromium and a C++ compiler are fetched where they are missing (.ci/need).
# PYTHON=python3.12 names another Python, TORCH_INDEX= has torch with CUDA instead of the smaller build for the CPU.

PYTHON ?= python3
VENV ?= .venv
TESTERS ?= 2
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install
NEED := PYTHON=$(PYTHON) VENV=$(VENV) .ci/need
BASE := $(VENV)/.base
NODE_MODULES := extension/node_modules/.ready
VIEWER := explorer/labextension/static/report.html
export PATH := $(abspath $(BIN)):$(PATH)
CHROMIUM ?= $(or $(shell command -v chromium || command -v chromium-browser || command -v google-chrome),$(wildcard $(abspath $(VENV))/chromium/chromium))
export CHROMIUM
# Where it is set, each of the many processes of the tests compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo lab test test-all extension docs bench picture clean chromium need-demo need-test
.DEFAULT_GOAL := help
# The viewer is built while pip fetches what the demo does without.
MAKEFLAGS += -j2

help:
	@sed -n 's/^# make/make/p' Makefile

need-demo:
	@$(NEED) check python packages compiler headers node

need-test: need-demo
	@$(NEED) check chromium

# The tested torch first: asked for together with an open range, pip fetches the newest one as well. What it needs comes
# with the package, from the usual index.
$(BASE): pyproject.toml | need-demo
	@echo "==> setting up $(VENV) (once; a few minutes, mostly PyTorch)"
	$(PYTHON) -m venv $(VENV)
	$(PIP) --quiet --upgrade pip
	$(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['tested'])" \
	  | xargs $(PIP) --no-deps $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	$(NEED) get $(VENV) compiler headers node
	@# JupyterLab reads what is built here, so that a build shows without another installation
	mkdir -p $(VENV)/share/jupyter/labextensions
	ln -sfn $(abspath explorer/labextension) $(VENV)/share/jupyter/labextensions/torch-explorer
	@touch $@

# The package with the extras that a target needs: demo, lab or dev.
$(VENV)/.extras-%: pyproject.toml $(BASE)
	$(PIP) --editable '.[$(EXTRAS_$*),tested]'
	@touch $@

EXTRAS_demo := demo
EXTRAS_lab := demo,lab
EXTRAS_dev := dev
READY_DEMO := $(VENV)/.extras-demo
READY_LAB := $(VENV)/.extras-lab
READY := $(VENV)/.extras-dev
$(READY_LAB) $(READY): | $(READY_DEMO)

$(NODE_MODULES): extension/package.json extension/yarn.lock | $(READY_DEMO)
	cd extension && jlpm install --immutable
	@touch $@

chromium: need-test | $(BASE)
	@$(NEED) get $(VENV) chromium

$(VIEWER): $(NODE_MODULES) $(shell find extension/src extension/schema -type f) extension/bundle.mjs extension/styles.mjs extension/webpack.config.js extension/tsconfig.json
	cd extension && jlpm build:prod

extension: $(VIEWER)

demo: need-demo $(READY_DEMO) $(VIEWER)
	$(BIN)/explorer demo

lab: need-demo $(READY_LAB) $(VIEWER)
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/tour.ipynb

# mypy takes one processor and waits for nothing; the browser tests wait for kernels and servers.
test test-all: need-test $(READY) $(VIEWER) chromium
	$(BIN)/ruff check explorer tests benchmarks docs extension
	$(BIN)/ruff format --check --quiet explorer tests benchmarks docs extension
	@echo "==> types, the viewer, and tests in a browser"
	$(BIN)/mypy --strict explorer & types=$$!; \
	  (cd extension && jlpm check && jlpm test && jlpm e2e $(if $(filter test,$@),report)); viewer=$$?; \
	  wait $$types && exit $$viewer
	@echo "==> tests ($(TESTERS) processes)$(if $(filter test,$@),; a sample: make test-all runs all)"
	$(BIN)/python -m pytest -n $(TESTERS) --dist worksteal -q $(if $(filter test,$@),-m "not slow" --sample 6) tests

docs: $(READY) $(VIEWER)
	$(BIN)/sphinx-build -W --keep-going -q docs build/docs
	@echo "build/docs/index.html"

bench: need-demo $(READY) $(VIEWER)
	$(BIN)/python -m benchmarks

picture: need-test $(READY) $(VIEWER) chromium
	cd extension && PICTURES=$(abspath docs) jlpm picture

clean:
	rm -rf $(VENV) demo build dist docs/course .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf extension/node_modules extension/lib explorer/labextension
