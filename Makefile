# Commands for working on edgec. `make` alone lists them.
#
# Nothing but Python 3.11 or newer, pip and make is needed: everything else comes from PyPI into
# .venv. arm-none-eabi-gcc, QEMU, clang-format and cppcheck are used where they are installed.

# The first Python that is new enough; `make PYTHON=... venv` chooses another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$p"; break; }; done)

VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
PY := $(BIN)/python
# What users may want comes first: it is enough for the demo. The tests' tools follow.
USER_STAMP := $(VENV)/.installed_all
STAMP := $(VENV)/.installed

# Two workers: CI has two cores. Work stealing keeps the tests of a file together, which share
# what they build.
JOBS ?= 2
# Each worker has a core: NumPy's products on threads of their own only wait for each other.
test test-full: export OPENBLAS_NUM_THREADS := 1
# Tests start thousands of Pythons, half of whose time is the compiling of modules. So byte code is
# kept, also where a container is set to write none: in a folder of its own.
test test-full: export PYTHONDONTWRITEBYTECODE :=
test test-full: export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache
PYTEST := $(PY) -m pytest -n $(JOBS) --dist worksteal --durations 10

PY_SOURCES := $(wildcard edgec tests examples setup.py)
C_SOURCES = $(shell find runtime_c tests/runtime_c -name '*.[ch]' -o -name '*.inc' 2>/dev/null | sort)
CPPCHECK_FLAGS := --std=c99 --enable=warning,portability,performance --inline-suppr \
	--error-exitcode=1 --quiet --suppress=missingIncludeSystem \
	-I runtime_c/include -I runtime_c/include/edgec -I runtime_c/ports -I runtime_c/link -I runtime_c/mlperf

.DEFAULT_GOAL := help
.PHONY: help venv demo test test-full check check-python check-c format devices models docs site figures bench fuzz misra emit-diff clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## Create .venv with edgec and all it needs for demo, tests and checks

# --no-compile: byte code is made when a file is first used; most of it never is.
# `venv` needs ensurepip, which Debian packages separately; the system's own pip can stand in.
$(USER_STAMP): pyproject.toml setup.py
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 or newer was found" >&2; exit 1; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) 2>/dev/null \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	       && $(PYTHON) -m pip --python $(PY) install --quiet pip; } \
	  || { rm -rf $(VENV); \
	       echo "error: $(PYTHON) cannot create a virtual environment" >&2; \
	       echo "hint: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	$(PY) -m pip install --quiet --no-compile --editable '.[all]'
	@touch $(USER_STAMP)

$(STAMP): $(USER_STAMP)
	$(PY) -m pip install --quiet --no-compile --editable '.[all,test]'
	@touch $(STAMP)

demo: $(USER_STAMP) ## Run the digits example on an emulated STM32
	$(PY) examples/digits/demo.py

test: $(STAMP) ## Run the tests (25 minutes on two slow cores)
	$(PYTEST) -m "not full"

test-full: $(STAMP) ## Run everything times everything: every model, engine, compiler and board
	$(PYTEST)

check: check-python check-c ## Lint, format and type checks of Python and C

check-python: $(STAMP)
	$(PY) -m ruff check $(PY_SOURCES)
	$(PY) -m ruff format --check $(PY_SOURCES)
	$(PY) -m mypy --strict edgec

# A missing tool is said and skipped on a developer's machine and is an error in CI.
define with_tool
	@if command -v $(1) >/dev/null; then echo '$(2)'; $(2); \
	elif [ "$$CI" = true ]; then echo 'error: $(1) is not installed' >&2; exit 1; \
	else echo 'skipped: $(1) is not installed'; fi
endef

check-c:
	$(call with_tool,clang-format,clang-format --dry-run --Werror $(C_SOURCES))
	$(call with_tool,cppcheck,cppcheck $(CPPCHECK_FLAGS) runtime_c)

format: $(STAMP) ## Format Python and C in place
	$(PY) -m ruff check --fix $(PY_SOURCES)
	$(PY) -m ruff format $(PY_SOURCES)
	$(call with_tool,clang-format,clang-format -i $(C_SOURCES))

misra: $(STAMP) ## Check emitted C and runtime against docs/misra.md (a few minutes)
	$(PY) tests/runtime_c/misra.py

BASE ?= HEAD
FUZZ_COUNT := 2000000

RANDOM_SECONDS := 7200

fuzz: $(STAMP) ## Fuzz damaged model files, then compare random valid ones (hours; FUZZ_COUNT=, RANDOM_SECONDS=)
	$(PY) tests/fuzz/fuzz.py --count $(FUZZ_COUNT) --workers $(JOBS)
	OPENBLAS_NUM_THREADS=1 $(PY) tests/fuzz/compare_models.py --seconds $(RANDOM_SECONDS)

# Runs on bad lines, flashing with faults, use of the line's rate, inputs for the parser; also those
# marked full. -rP shows what the tests counted.
devices: $(STAMP) ## Test the serial link and flashing at length (an hour)
	$(PYTEST) -rP tests/link/test_throughput.py tests/link/test_device_c.py \
	  tests/models/test_link_on_bad_lines.py tests/runners/flash/test_stm32_boot_loader.py

emit-diff: $(STAMP) ## Compare the machine code of two revisions (BASE=commit; minutes)
	rm -rf build/emit && git worktree prune && git worktree add -q --detach build/emit $(BASE)
	$(PY) tests/models/emit_hashes.py --tree build/emit --write build/emit.json
	git worktree remove --force build/emit
	$(PY) tests/models/emit_hashes.py --against build/emit.json

models: $(STAMP) ## Measure every sample model again for docs/models.md (an hour)
	$(PY) tests/models/measure_models.py
	$(PY) tests/pages/write_pages.py

figures: $(STAMP) ## Measure the tables of docs/figures.toml again (an hour)
	PYTHONPATH=tests:tests/pages $(PY) tests/models/measure_tuned.py
	PYTHONPATH=tests:tests/pages $(PY) tests/models/measure_mlperf_suite.py
	PYTHONPATH=tests:tests/pages:tests/unit/memory $(PY) tests/unit/memory/measure_minimalloc.py
	$(PY) tests/pages/write_pages.py

docs: $(STAMP) ## Write the generated pages of docs/ again
	$(PY) tests/pages/write_pages.py

site: $(STAMP) ## Build the documentation as a site, in build/site
	$(PY) -m pip install --quiet --no-compile --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

bench: $(STAMP) ## Measure the sample models and compare them with the baselines
	$(BIN)/edgec bench

clean: ## Remove what the tools wrote, except .venv
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
