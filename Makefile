# Everything a newcomer or a build machine needs. Each target sets up what it runs on, once:
# a stamp file in the environment is renewed only when pyproject.toml or requirements/ change.
#
#   make demo    install into .venv and run the demonstration
#   make quick   the tests of the core, in about three minutes on two cores
#   make test    lint, types, import order, budget, then every package's daily tests and documented examples
#                (PACKAGE=lab, fleet, edge, gpu, research or core: one of them)
#   make nightly everything: the tests in their long form, the long targets, fleets, boards, browser, studies
#   make security  the security checks in their long form (several minutes)
#   make mutants  put faults into the privacy code and see which ones tests notice (hours; by hand)
#   make portable  the C form on emulated processors and in WebAssembly, with apt (needs root), and code compiled for other processors
#   make edge    five emulated boards that train, and WebAssembly; installs compilers and emulator with apt (needs root)
#   make edge-long  the same, and 21 boards, on UCI HAR where it is here
#   make firmware  exported trees through the tools of PlatformIO and ESP-IDF, and MicroPython's where MPY_DIR names it
#   make flower  the same plan in one process and on four real nodes, with TLS and secure aggregation
#   make locked  install a node into .venv-node, every file compared with requirements/hashes.txt
#   make bench   measure against the peers, in an environment of its own
#   make results  run the studies behind README's table, with nothing set, and write the tables (about two hours)
#   make wheel   build the wheel and the source archive into dist, and print their SHA-256
#   make release  wheels, hashes, SBOM, provenance, package index and documentation by version into dist; uploads nothing
#   make matrix  the tests of the core on every Python here, with the newest packages, each in its own .venv-3.x
#   make newest  the same, and the tests of deployments and engines, with upper bounds taken away: Flower, Ray
#   make interop  the classifier for aeon and the forecaster for sktime, and all of scikit-learn's checks, in an environment of its own
#   make playground  build the playground page, one HTML file, from C and scripts
#   make docs    build the documentation into docs/_build/html
#   make browser install chromium with apt, for the tests of the report (needs root)
#   make check   lint, types, import order, faces, the budget and the drawn walk
#   make clean   remove environments, caches and built files

.DEFAULT_GOAL := demo
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV := .venv
BENCH := .venv-bench
INTEROP := .venv-interop
NODE := .venv-node
BIN := $(VENV)/bin
PINS := requirements/constraints.txt
INSTALL = -m pip install -qq --disable-pip-version-check
INPUTS := pyproject.toml $(wildcard packages/*/pyproject.toml) $(wildcard requirements/*.txt)
CORE := -e 'packages/catchment[dp,sklearn]' -e packages/catchment-lab
EVERY := -e 'packages/catchment[all]' -e packages/catchment-lab -e 'packages/catchment-fleet[ray]' \
	$(foreach one,edge gpu research,-e packages/catchment-$(one))
# One more than cores, up to four: tests that start processes wait for these.
WORKERS ?= $(shell n=$$(( $$(getconf _NPROCESSORS_ONLN) + 1 )); echo $$(( n < 4 ? n : 4 )))

# Bytecode is kept: where Python is told to write none, every process that a test starts would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

# For tests, whose workers have a core each: threads of theirs would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# The studies are run from a clone.
STUDIES := PYTHONPATH=packages/catchment-research:packages/catchment-research/src

# Data sets beside this clone, if there are any.
BESIDE := $(wildcard ../shared/data)

# What the core consists of. Deployments, networks, language models and studies are not in it, and
# neither are the modules in it that are marked slow.
QUICK := $(addprefix packages/catchment/tests/,contracts data features federation laws privacy readout report cli/test_cli.py)

# The tests of one package, or of all of them and of what holds them together.
PACKAGE ?=
TESTS := $(if $(PACKAGE),$(if $(filter core,$(PACKAGE)),packages/catchment/tests,packages/catchment-$(PACKAGE)/tests),packages tests)
PYTEST_ALL = $(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder -q

# The first interpreter that is new enough and really starts (a version manager may only pretend).
PYTHON ?= $(shell for p in python3.11 python3 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: demo quick test security mutants portable cross flower locked bench interop docs check clean lint browser nginx spin
.PHONY: nightly processor results
.PHONY: firmware release newest wheel matrix kernels programs playground edge edge-long boards

demo: $(VENV)/.installed
	@$(BIN)/catchment demo

quick: $(VENV)/.dev
	@$(PYTEST_ALL) \
		-m "not long and not slow" $(QUICK)

# pytest is last, so that its closing line is the last one printed.
# Tests of one file run in one worker, so that what they share is made once: loadfile. In the order of their
# names: the other order leaves long files of one test for the end.
# A build machine gets a browser, a web server and an emulated board; nobody else's system is touched.
# Before it, programs are fetched while packages are installed, types checked and kernels compiled.
test: $(VENV)/.made
	@$(MAKE) --no-print-directory -j3 lint kernels programs
	@$(if $(PACKAGE),,$(MAKE) --no-print-directory processor)
	@$(PYTEST_ALL) $(TESTS)

# The kernels of OpenBLAS that this processor would not take by itself: what could depend on them is tested with both.
OTHER ?= $(shell grep -qsw avx512f /proc/cpuinfo && echo Haswell || echo Sandybridge)

processor: $(VENV)/.dev
	@OPENBLAS_CORETYPE=$(OTHER) $(PYTEST_ALL) -m "processor and not long" \
		$$(grep -rl --include 'test_*.py' 'mark[.]processor' packages tests)

# The second without AVX-512 is another: OpenBLAS would stop at an instruction that the processor has not.
nightly: $(VENV)/.made
	@$(MAKE) --no-print-directory -j3 lint kernels programs
	@for core in Haswell $(shell grep -qsw avx512f /proc/cpuinfo && echo SkylakeX || echo Sandybridge); do \
		OPENBLAS_CORETYPE=$$core $(PYTEST_ALL) packages tests || exit 1; done
	@$(PYTEST_ALL) -m long packages tests
	@$(MAKE) --no-print-directory edge-long flower interop docs

# One after the other: two at once would wait for each other's lock.
programs: $(VENV)/.made
	@$(MAKE) --no-print-directory -j1 $(if $(filter 1 true,$(CI)),browser boards) nginx spin

# Compiled code is kept beside the sources, and two workers need not compile the same; nor what pytest makes of a test.
kernels: $(VENV)/.dev
	@$(BIN)/python -m catchment.precompile
	@$(BIN)/python -m pytest --collect-only -qq $(TESTS) >/dev/null

security: $(VENV)/.dev nginx spin
	@$(BIN)/python -m tools.spin
	@$(PYTEST_ALL) \
		-m "long or not long" $(wildcard packages/*/tests/security) tests/security \
		--ignore packages/catchment/tests/security/test_model_of_secure_aggregation.py \
		packages/catchment-fleet/tests/fleet/test_fleet_faults.py \
		tests/engine/test_flower_simulation.py

# Faults put in on purpose; kept in benchmarks/results/mutants.json, to which each run adds.
# MUTANTS="--sample 200 --jobs 2", or --only 'noise *'.
MUTANTS ?= --resume
mutants: $(VENV)/.dev
	@$(BIN)/python -m tools.mutants $(MUTANTS)

# README's table from the data sets here, with nothing set. RESULTS=--resume keeps what is recorded.
RESULTS ?=
results: $(VENV)/.dev
	@for study in maps anomaly life forecast; do \
		$(STUDIES) $(BIN)/python -m reproductions $$study $(RESULTS) $(addprefix --data ,$(BESIDE)) || exit 1; done
	@$(STUDIES) $(BIN)/python -m benchmarks.measured_tables --write

portable: $(VENV)/.dev cross
	@$(PYTEST_ALL) -rs \
		-m "long or not long" packages/catchment-edge/tests/portable packages/catchment-edge/tests/differential
	@$(PYTEST_ALL) \
		-m long $(addprefix packages/catchment/tests/,data features readout) packages/catchment-gpu/tests

# Emulators, cross compilers, and a compiler for WebAssembly; a test without its own says so.
cross: $(VENV)/.dev
	-@[ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || { echo "installing cross compilers"; \
		{ timeout 60 apt-get update; timeout 600 apt-get install -y --no-install-recommends \
		$$($(BIN)/python -m tools.portable.machines); } >/dev/null 2>&1 || echo "no cross compilers; their tests are skipped"; }
	-@timeout 300 $(BIN)/python $(INSTALL) -c $(PINS) ziglang || echo "no ziglang; its tests are skipped"

# The kept page is what the documentation shows: who only reads or tests needs no compiler.
playground: $(VENV)/.installed
	@$(BIN)/python $(INSTALL) -c $(PINS) --group playground
	@$(BIN)/python -m tools.playground.build

# Devices that train, five of them, on an emulated Cortex-M4F; a compiler for WebAssembly in a wheel.
edge: $(VENV)/.dev boards
	@$(BIN)/python -m tools.edge needs
	-@timeout 300 $(BIN)/python $(INSTALL) -c $(PINS) ziglang || echo "no ziglang; WebAssembly is not tested"
	@$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist loadfile -q -rs $(addprefix packages/catchment-edge/tests/,edge playground differential)

# On UCI HAR where it is beside this clone, else on synthetic people; EDGE=8 for fewer boards.
EDGE ?= 21
edge-long: edge
ifneq ($(BESIDE),)
	@$(STUDIES) $(BIN)/python -m reproductions pack uci_har --from $(BESIDE) --out .data >/dev/null
endif
	@$(BIN)/python -m tools.edge run --devices $(EDGE) $(if $(BESIDE),--data .data) --out runs/edge.json

# A compiler for Cortex-M and an emulator of boards; tests without them say so.
boards:
	-@{ command -v arm-none-eabi-gcc && command -v qemu-system-arm; } >/dev/null || [ "$$(id -u)" != 0 ] || \
		! command -v apt-get >/dev/null || { echo "installing a compiler and an emulator for boards"; \
		{ timeout 60 apt-get update; timeout 300 apt-get install -y --no-install-recommends \
		gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm; } >/dev/null 2>&1 || echo "no boards; their tests are skipped"; }

# The tools that unpack exported trees, in an environment of their own; Arduino's core where apt may be used.
firmware: $(VENV)/.dev
	@[ -x .venv-firmware/bin/python ] || $(PYTHON) -m venv .venv-firmware
	@.venv-firmware/bin/python $(INSTALL) platformio idf-component-manager pyelftools ar
	-@command -v avr-gcc >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ timeout 60 apt-get update; timeout 300 apt-get install -y --no-install-recommends gcc-avr avr-libc arduino-core-avr; } >/dev/null 2>&1
	@PATH="$(CURDIR)/$(BIN):$$PATH:$(CURDIR)/.venv-firmware/bin" MPY_PYTHON="$(CURDIR)/.venv-firmware/bin/python" \
		$(BIN)/python -m pytest -q -rs packages/catchment-edge/tests/export/test_firmware.py

flower: $(VENV)/.flower nginx
	@rm -rf runs/flower
	@$(BIN)/python -m tools.fleet up --nodes 4 --check --dir runs/flower

# Nothing is resolved or built out of sight: a file that is not listed, or differs, ends it.
locked:
	@[ -x $(NODE)/bin/python ] || $(PYTHON) -m venv $(NODE)
	@$(NODE)/bin/python $(INSTALL) --no-deps --require-hashes -r requirements/hashes.txt
	@$(NODE)/bin/python $(INSTALL) --no-deps --no-build-isolation packages/catchment packages/catchment-fleet
	@echo "installed: $(NODE)/bin/catchment"

# The same sources give the same bytes: no date, owner, order or folder of this machine is in them.
wheel: $(VENV)/.installed
	@$(BIN)/python $(INSTALL) -c $(PINS) hatchling
	@rm -rf dist
	@for one in packages/*; do (cd $$one && $(CURDIR)/$(BIN)/python -m hatchling build -d $(CURDIR)/dist >/dev/null); done
	@cd dist && sha256sum *

# After `make docs` with its pages; .github/workflows/release.yml has it signed and uploaded.
release: $(VENV)/.dev
	@$(BIN)/python $(INSTALL) -c $(PINS) hatchling
	@rm -rf dist
	@$(BIN)/python -m tools.release

# MATRIX="3.12 3.13" for some of them; PYTEST="-n 4" for more processes.
MATRIX ?= 3.11 3.12 3.13 3.14
PYTEST ?= -n 1
matrix:
	@$(PYTHON) -m tools.matrix $(MATRIX) -- $(PYTEST)

newest:
	@$(PYTHON) -m tools.matrix --newest $(MATRIX) -- $(PYTEST)

# Debian's program alone, into the environment: installing the package would start a web server.
nginx: $(VENV)/.made
	-@[ -x $(BIN)/nginx ] || command -v nginx /usr/sbin/nginx >/dev/null || \
		! command -v apt-get >/dev/null || { echo "fetching nginx into $(VENV)"; \
		{ [ "$$(id -u)" != 0 ] || timeout 60 apt-get update; cd $(VENV) && \
		timeout 120 apt-get download nginx && dpkg-deb -x nginx_*.deb nginx && cp nginx/usr/sbin/nginx bin/; \
		} >/dev/null 2>&1 || echo "no nginx; tests of a deployment are skipped"; }

# Spin checks the models of secure aggregation; Debian's program alone, into the environment.
spin: $(VENV)/.made
	-@[ -x $(BIN)/spin ] || command -v spin >/dev/null || \
		! command -v apt-get >/dev/null || { echo "fetching spin into $(VENV)"; \
		{ [ "$$(id -u)" != 0 ] || timeout 60 apt-get update; cd $(VENV) && \
		timeout 120 apt-get download spin && dpkg-deb -x spin_*.deb spin && cp spin/usr/bin/spin bin/; \
		} >/dev/null 2>&1 || echo "no spin; models are not checked"; }

# The report is tested in a real browser where there is one; where there is none those tests say so.
browser:
	-@command -v chromium chromium-browser google-chrome >/dev/null || [ "$$(id -u)" != 0 ] || \
		! command -v apt-get >/dev/null || { echo "installing chromium for the report's tests"; \
		{ timeout 60 apt-get update; timeout 300 apt-get install -y --no-install-recommends chromium; } >/dev/null 2>&1 || echo "no chromium; its tests are skipped"; }

check: lint

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.faces --check
	@$(BIN)/python -m tools.budget
	@$(BIN)/python -m tools.walk --figures --check

docs: $(VENV)/.docs
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "documentation: docs/_build/html/index.html"

bench: $(BENCH)/.installed
	@$(BENCH)/bin/python -m benchmarks.peers
	@$(BENCH)/bin/python -m benchmarks.lockstep

# aeon and sktime ask for an older numba and pandas than the pins; sktime warns of its next release.
interop: $(INTEROP)/.installed
	@$(INTEROP)/bin/python -m pytest -q -n 2 -W ignore::FutureWarning packages/catchment-lab/tests/interop tests/test_doctests.py -k interop
	@$(INTEROP)/bin/python -m pytest -q -n 2 -m "long or not long" packages/catchment/tests/sklearn/test_guide.py

clean:
	rm -rf $(VENV) $(BENCH) $(INTEROP) $(NODE) .venv-3.* .venv-firmware docs/_build docs/api/generated build dist .data
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find packages tests benchmarks examples docs tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made: $(INPUTS)
	$(call environment,$(VENV))
	@touch $@

$(VENV)/.installed: $(VENV)/.made
	@echo "installing catchment into $(VENV) (a minute or two, once)"
	$(call install,$(CORE))
	@touch $@

$(VENV)/.dev: $(VENV)/.made
	@echo "installing catchment and the development tools into $(VENV)"
	$(call install,$(EVERY) --group dev)
	@touch $@ $(VENV)/.installed

$(VENV)/.flower: $(VENV)/.made
	@echo "installing Flower into $(VENV)"
	$(call install,-e packages/catchment -e packages/catchment-fleet)
	@touch $@

$(VENV)/.docs: $(VENV)/.made
	@echo "installing the documentation tools into $(VENV)"
	$(call install,$(EVERY) --group docs)
	@touch $@

$(BENCH)/.installed: $(INPUTS)
	$(call environment,$(BENCH))
	@echo "installing catchment and its peers into $(BENCH)"
	@$(BENCH)/bin/python $(INSTALL) -c $(PINS) -e 'packages/catchment[sklearn]' -e packages/catchment-lab -r requirements/bench.txt
	@touch $@

$(INTEROP)/.installed: $(INPUTS)
	$(call environment,$(INTEROP))
	@echo "installing catchment, aeon and sktime into $(INTEROP)"
	@$(INTEROP)/bin/python $(INSTALL) -e 'packages/catchment[sklearn]' -e packages/catchment-lab -r requirements/interop.txt
	@touch $@

# Dependency groups need pip 25.1; the pip that comes with Python 3.11 is older.
define environment
	@$(or $(PYTHON),false) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "catchment needs Python 3.11 or later, found $(or $(PYTHON),none);" \
			"install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@[ -x $(1)/bin/python ] || $(PYTHON) -m venv $(1)
	@$(1)/bin/python $(INSTALL) --upgrade 'pip>=25.1'
endef

# uv takes the same packages from where pip is told to take them, in a third of the time; where it cannot, pip does it.
define install
	@told() { $(BIN)/python -m pip config list | sed -n "s/.*[.]$$1='\(.*\)'/\1/p" | sed 's/\\n/ /g' | xargs | tr ' ' "$$2"; }; \
		$(BIN)/python $(INSTALL) -c $(PINS) uv && \
		UV_HTTP_TIMEOUT=180 UV_DEFAULT_INDEX=$$(told index-url ' ') UV_INDEX=$$(told extra-index-url ' ') UV_FIND_LINKS=$$(told find-links ,) \
		$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --index-strategy unsafe-best-match -c $(PINS) $(1) || \
		$(BIN)/python $(INSTALL) -c $(PINS) $(1)
endef
