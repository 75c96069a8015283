# SPDX-License-Identifier: Apache-2.0
# Entry points. meson does the building.

PREFIX       ?= /usr/local
BUILD        := build
PYTHON       ?= $(firstword $(wildcard /usr/bin/python3) python3)
FUZZ_SECONDS ?= 60
EXITS        ?= 1000
JOBS         ?=
VENVS        ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gsprof/venvs

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all deps-% configure demo test test-full test-exits test-real test-quick lint bench docs install golden format fuzz clean help

all: configure ## build gsprof (build/gsprof)
	@ninja -C $(BUILD)
	@ln -sf src/cli/gsprof $(BUILD)/gsprof

deps-%:
	@tools/install-deps.sh build $*
	@tools/get-yyjson.sh
	@tools/get-duckdb.sh

configure: deps-build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)

demo: all ## profile the example training script
	@tools/install-deps.sh demo || true # the demo also runs without NumPy
	@tools/demo.sh

test: deps-test all ## run all tests
	@tools/get-pythons.sh >/dev/null 2>&1 || true # tests that need a missing one are skipped
	@$(PYTHON) tools/run_tests.py

test-full: ## run all tests, and the wheel in every interpreter
	@GSPROF_TEST_FULL=1 $(MAKE) --no-print-directory test

test-exits: deps-test all ## check that programs exit under gsprof run as they do alone (EXITS=1000)
	@free=$$(tools/get-pythons.sh --free-threaded 2>/dev/null | grep -m1 't$$'); \
	if [ -z "$$free" ]; then echo "cannot build a free-threaded interpreter"; \
	else meson configure $(BUILD) -Dfree_threaded_python="$$free" && ninja -C $(BUILD); fi
	@$(PYTHON) tests/exits/exits.py --count $(EXITS) --venvs $(VENVS)

test-real: deps-test all ## test with popular libraries from PyPI (JOBS="jax ray" selects some)
	@$(PYTHON) tests/real/real.py --venvs $(VENVS) $(addprefix --only ,$(JOBS))

test-quick: all ## run the unit tests and fuzz corpora
	@$(PYTHON) tools/run_tests.py plain

lint: deps-lint ## check format, layers and sizes; run analyzers; build with warnings as errors
	@$(PYTHON) tools/lint.py

bench: deps-bench all ## measure cost and accuracy
	@$(PYTHON) bench/run.py

docs: ## build the documentation site (build/docs/index.html)
	@tools/install-deps.sh docs
	@$(PYTHON) -m sphinx -q -W --keep-going -E -a -j auto -d $(BUILD)/docs-cache -c docs . $(BUILD)/docs
	@echo "documentation: $(abspath $(BUILD))/docs/index.html"

install: all ## install (PREFIX=/usr/local)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD)

golden: all ## update the expected output in tests/golden
	@GSP_GOLDEN_WRITE=1 meson test -C $(BUILD) --suite unit
	@git --no-pager diff --stat -- tests/golden

format: ## format all C and Python files
	@git ls-files -z --cached --others --exclude-standard '*.[ch]' | xargs -0 clang-format -i
	@git ls-files -z --cached --others --exclude-standard '*.py' | xargs -0 $(PYTHON) -m black -q

fuzz: deps-lint ## run every fuzz target (FUZZ_SECONDS=60)
	@tools/fuzz.sh $(FUZZ_SECONDS)

clean: ## remove all build folders
	@rm -rf build build-asan build-tsan build-fuzz build-aarch64

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
