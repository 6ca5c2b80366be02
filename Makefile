# `make report` and `make test` set up .venv on first use; everything else of a run is Snakemake.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

CORES ?= all
ARGS ?=
# Snakemake refuses a key of one letter, but n is the name of a width: --config matrix=my.mtx n=64.
override ARGS := $(subst 'n=,'widths=,$(subst "n=,"widths=,$(patsubst n=%,widths=%,$(ARGS))))

# The first Python that is new enough makes the environment; `make report PYTHON=/path/to/python` picks another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python3.14; do \
	$$python -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# cuda13, cuda12 or compile (no GPU), as the driver says; `make report EXTRA=compile` leaves the GPU alone.
EXTRA ?= $(if $(PYTHON),$(shell $(PYTHON) envs/choose_extra.py),compile)

VENV := .venv
LOCK = envs/lock-$(EXTRA).txt
# Python compiles what a run imports; pip would compile all that it installs, which takes as long as the rest.
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
INSTALLED = $(VENV)/installed-$(EXTRA)

# What a report does without: one stamp each.
DOCS = $(VENV)/installed-docs
RELEASE = $(VENV)/installed-release

.PHONY: help report test sanitize docs provenance image dist setup lock

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1 \2/p' $(MAKEFILE_LIST) | while read -r target line; do printf 'make %-10s %s\n' "$$target" "$$line"; done

report: setup  ## walk the whole road and write results/report/report.html
	$(VENV)/bin/python -m snakemake --cores $(CORES) report $(ARGS)
	@test ! -f results/report/report.html || echo "The report lies at $(CURDIR)/results/report/report.html"

test: setup $(DOCS) $(RELEASE)  ## run all tests and linters
	$(VENV)/bin/python -m pytest -n 2 $(ARGS)

# The sanitizer of addresses must be loaded first. NVIDIA's compiler does not start with it: one test that runs it is left
# out.
sanitize: setup  ## run kernels on the host, and end where one accesses what it must not
	SPMM_ROOFLINE_SANITIZE=1 LD_PRELOAD=$$(g++ -print-file-name=libasan.so) \
		ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1 \
		$(VENV)/bin/python -m pytest -n 2 tests/kernels tests/formats tests/multiply \
		--deselect tests/kernels/test_external.py::test_a_cuda_library_describes_itself_without_a_gpu $(ARGS)

docs: setup $(DOCS)  ## build the documentation site into docs/_build/html
	$(VENV)/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs docs/_build/html
	@echo "The site lies at $(CURDIR)/docs/_build/html/index.html"

provenance: setup $(RELEASE)  ## describe the finished run as an RO-Crate: ro-crate-metadata.json
	$(VENV)/bin/python -m snakemake --reporter provenance report $(ARGS)

# The image of `--sdm apptainer`.
BUILDER ?= docker
IMAGE ?= spmm-roofline:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE_EXTRA ?= cuda13
COMMIT = $(shell git describe --always --abbrev=12 --exclude='*' --dirty=+ 2>/dev/null || echo unknown)

image:  ## build the container image; BUILDER=podman, IMAGE_EXTRA=cuda12 or compile
	$(BUILDER) build --build-arg EXTRA=$(IMAGE_EXTRA) --build-arg COMMIT=$(COMMIT) --tag $(IMAGE) .

# Machine code travels in the wheel, so that a user's first product needs no compiler.
dist: setup  ## build wheel and sdist into dist/
	$(VENV)/bin/python -m spmm_roofline.kernels.ship build/cubins
	rm -rf dist build/lib build/bdist.*
	$(VENV)/bin/python -c 'from setuptools import build_meta as build; build.build_sdist("dist"); build.build_wheel("dist")'
	@ls -l dist

setup: $(if $(word 2,$(CURDIR)),spaced-path) $(if $(PYTHON),,no-python) $(INSTALLED)  ## create .venv from the lock file (report and test do it themselves)

# One stamp an extra: a new lock file or another driver makes the environment anew, anything else leaves it alone.
$(INSTALLED): $(LOCK) envs/lock-build.txt
	@echo "Creating $(VENV) with $(PYTHON) from $(LOCK); this takes a minute or two"
	$(PYTHON) -m venv --clear --without-pip $(VENV)
	$(VENV)/bin/python envs/bootstrap_pip.py
	$(INSTALL) --require-hashes -r envs/lock-build.txt
	$(INSTALL) --require-hashes --no-build-isolation -r $(LOCK)
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

# Both come on top of what a run needs.
$(DOCS) $(RELEASE): $(VENV)/installed-%: envs/lock-%.txt $(INSTALLED)
	@echo "Adding what $(basename $(<F)) names"
	$(INSTALL) --require-hashes --no-build-isolation -r $<
	@touch $@

.PHONY: spaced-path
spaced-path:
	@echo "Snakemake cannot start jobs with a Python whose path has a space, and .venv would lie in $(CURDIR): move the project." >&2
	@exit 1

.PHONY: no-python
no-python:
	@echo "This project needs Python 3.11 or later and found none: install python3.11, or name one with PYTHON=/path/to/python." >&2
	@exit 1

# uv resolves for all platforms and Python versions at once; it is needed here alone, so it lives in an environment of its own.
UV := build/lock/bin/uv
COMPILE := $(UV) pip compile --universal --python-version 3.11 --generate-hashes --quiet \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

lock: setup  ## remake envs/lock-*.txt from pyproject.toml; UPGRADE=1 takes the newest versions
	$(VENV)/bin/python -m venv --without-pip build/lock
	$(VENV)/bin/python -m pip --python build/lock install --quiet --disable-pip-version-check uv
	printf 'pip\nsetuptools\n' | $(COMPILE) $(if $(UPGRADE),--upgrade) - --output-file envs/lock-build.txt
	for extra in compile cuda12 cuda13; do \
		$(COMPILE) $(if $(UPGRADE),--upgrade) --extra workflow --extra $$extra --extra slurm --extra dev \
			pyproject.toml --output-file envs/lock-$$extra.txt || exit 1; \
	done
	for extras in "docs" "release --extra provenance"; do \
		$(COMPILE) $(if $(UPGRADE),--upgrade) --constraint envs/lock-compile.txt --extra $$extras \
			pyproject.toml --output-file envs/lock-$${extras%% *}.txt || exit 1; \
	done
