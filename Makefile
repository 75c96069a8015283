# SPDX-License-Identifier: Apache-2.0
# Entry points. meson does the building.

PREFIX       ?= /usr/local
BUILD        := build
PYTHON       ?= $(firstword $(wildcard /usr/bin/python3) python3)
FUZZ_SECONDS ?= 60
EXITS        ?= 1000
KILLS        ?= 40
JOBS         ?=
ROWS         ?=
SECONDS      ?= 0
VENVS        ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gsprof/venvs

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all free-threaded deps-% configure demo test test-full test-exits test-real test-aarch64 test-quick prove lint bench docs install reproducible sbom golden format fuzz fuzz-coverage clean help

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

free-threaded: all
	@free=$$(tools/get-pythons.sh --free-threaded 2>/dev/null | grep -m1 't$$'); \
	if [ -z "$$free" ]; then echo "cannot build a free-threaded interpreter"; \
	else meson configure $(BUILD) -Dfree_threaded_python="$$free" && ninja -C $(BUILD); fi

test-exits: deps-test free-threaded ## check that programs exit under gsprof run as they do alone (EXITS=1000)
	@$(PYTHON) tests/exits/exits.py --count $(EXITS) --venvs $(VENVS)

test-real: deps-test all ## test with popular libraries from PyPI (JOBS="jax ray" selects some)
	@$(PYTHON) tests/real/real.py --venvs $(VENVS) $(addprefix --only ,$(JOBS))

test-aarch64: deps-aarch64 ## test injection on an emulated aarch64 machine (KILLS=40)
	@$(PYTHON) tests/aarch64/aarch64.py --kills $(KILLS)

test-quick: all ## run the unit tests and fuzz corpora
	@$(PYTHON) tools/run_tests.py plain

prove: deps-test free-threaded ## repeat the reliability tests for hours, and add up all runs (ROWS="injections", SECONDS=3600)
	@$(PYTHON) tests/prove/prove.py --seconds $(SECONDS) $(addprefix --only ,$(ROWS))

lint: deps-lint ## check format, layers and sizes; run analyzers; build with warnings as errors
	@$(PYTHON) tools/lint.py

bench: deps-bench all ## measure cost and accuracy
	@$(PYTHON) bench/run.py

docs: ## build the documentation site (build/docs/index.html)
	@tools/install-deps.sh docs
	@$(PYTHON) -m sphinx -q -W --keep-going -E -a -j auto -d $(BUILD)/docs-cache -c docs . $(BUILD)/docs
	@echo "documentation: $(abspath $(BUILD))/docs/index.html"

install: sbom ## install (PREFIX=/usr/local)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD)
	@install -D -m 644 $(BUILD)/gsprof.spdx.json $(DESTDIR)$(abspath $(PREFIX))/share/doc/gsprof/gsprof.spdx.json

reproducible: deps-build ## build the last commit twice and compare the bytes
	@$(PYTHON) tools/check_reproducible.py

sbom: all ## write the software bill of materials (build/gsprof.spdx.json)
	@$(PYTHON) tools/sbom.py $(BUILD) $(BUILD)/gsprof.spdx.json

golden: all ## update the expected output in tests/golden
	@GSP_GOLDEN_WRITE=1 meson test -C $(BUILD) --suite unit
	@git --no-pager diff --stat -- tests/golden

format: ## format all C and Python files
	@git ls-files -z --cached --others --exclude-standard '*.[ch]' | xargs -0 clang-format -i
	@git ls-files -z --cached --others --exclude-standard '*.py' | xargs -0 $(PYTHON) -m black -q

fuzz: deps-lint ## run every fuzz target (FUZZ_SECONDS=60)
	@tools/fuzz.sh $(FUZZ_SECONDS)

fuzz-coverage: deps-lint ## print the line coverage of the parsers by the fuzz corpora
	@tools/fuzz_coverage.sh

clean: ## remove all build folders
	@rm -rf build build-asan build-tsan build-fuzz build-coverage build-aarch64

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
