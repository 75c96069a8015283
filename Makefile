# SPDX-License-Identifier: Apache-2.0
# The front door; meson does the building.

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

all: configure ## build; leaves build/gsprof
	@ninja -C $(BUILD)
	@ln -sf src/cli/gsprof $(BUILD)/gsprof

deps-%:
	@tools/install-deps.sh build $*
	@tools/get-yyjson.sh
	@tools/get-duckdb.sh

configure: deps-build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD)

demo: all ## run the example training script with everything on: verdict and report
	@tools/install-deps.sh demo || true # it runs without NumPy too
	@tools/demo.sh

test: deps-test all ## every test; the last line counts them
	@tools/get-pythons.sh >/dev/null 2>&1 || true # a test that lacks one says so
	@$(PYTHON) tools/run_tests.py

test-full: ## every test, and the wheel in every interpreter there is
	@GSPROF_TEST_FULL=1 $(MAKE) --no-print-directory test

test-exits: deps-test all ## 1,000 programs end under gsprof run as they do alone (EXITS=N)
	@free=$$(tools/get-pythons.sh --free-threaded 2>/dev/null | grep -m1 't$$'); \
	if [ -z "$$free" ]; then echo "no free-threaded interpreter could be built"; \
	else meson configure $(BUILD) -Dfree_threaded_python="$$free" && ninja -C $(BUILD); fi
	@$(PYTHON) tests/exits/exits.py --count $(EXITS) --venvs $(VENVS)

test-real: deps-test all ## programs of well-known libraries from PyPI (JOBS="jax ray": those alone)
	@$(PYTHON) tests/real/real.py --venvs $(VENVS) $(addprefix --only ,$(JOBS))

test-quick: all ## unit tests and fuzz corpora of the plain build
	@$(PYTHON) tools/run_tests.py plain

lint: deps-lint ## format, layers, sizes, analysers, linters, builds without a warning
	@$(PYTHON) tools/lint.py

bench: deps-bench all ## cost and accuracy, measured here
	@$(PYTHON) bench/run.py

docs: ## documentation site with search, for file://: build/docs/index.html
	@tools/install-deps.sh docs
	@$(PYTHON) -m sphinx -q -W --keep-going -E -a -j auto -d $(BUILD)/docs-cache -c docs . $(BUILD)/docs
	@echo "documentation: $(abspath $(BUILD))/docs/index.html"

install: all ## install to PREFIX (/usr/local)
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	@meson install -C $(BUILD)

golden: all ## write the expected output of the exporters anew
	@GSP_GOLDEN_WRITE=1 meson test -C $(BUILD) --suite unit
	@git --no-pager diff --stat -- tests/golden

format: ## clang-format and black over the tree
	@git ls-files -z --cached --others --exclude-standard '*.[ch]' | xargs -0 clang-format -i
	@git ls-files -z --cached --others --exclude-standard '*.py' | xargs -0 $(PYTHON) -m black -q

fuzz: deps-lint ## run every fuzz target for FUZZ_SECONDS (60)
	@tools/fuzz.sh $(FUZZ_SECONDS)

clean: ## remove everything that was built
	@rm -rf build build-asan build-tsan build-fuzz build-aarch64

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
