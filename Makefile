.PHONY: help setup packages bare-debian containers demo evaluation deploy-local test compiled check portable coverage experiments properties requirements mutation format clean
.DEFAULT_GOAL := setup
PYTHON := .venv/bin/python
# Node, where .ci/setup had to bring it, lies beside Python.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Images of containers often forbid to keep compiled sources. Then each of the many programs that
# tests start compiles all of them again: half of the time of a start.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
# Node keeps compiled code below /tmp, and uv reads settings there if the clone is: others' perhaps.
export NODE_DISABLE_COMPILE_CACHE := 1
export UV_NO_CONFIG := 1
export UV_NO_SOURCES := 1
export CDK_DISABLE_CLI_TELEMETRY := true
CPPCHECK := cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr \
	--enable=warning,style,performance,portability

help: ## these lines
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1	\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## install everything: system packages, .venv/, the CDK command, the servers in build/
	@.ci/setup

packages: setup ## build/packages: a wheel and a Debian package, which need no compiler where they are installed; ARCH=arm64: for ARM64
	@docs/operate/install/build_deb.sh

bare-debian: ## install both in bare Debians, as root: with systemd and real servers, some minutes
	@$(PYTHON) -m pytest -q -n 0 -m experiment tests/packaging/test_bare_debian.py

containers: setup ## the image and the pod of the example, built and run by podman, as root: some minutes
	@$(PYTHON) -m pytest -q -n 0 -m experiment tests/packaging/test_containers.py

demo: setup ## static split against SPREDS, on this machine, in under five minutes
	@$(PYTHON) -m workloads demo $(DEMO)

evaluation: ## every experiment of docs/research/evaluation.md, about an hour; quick: make evaluation EVALUATION=--quick
	@.ci/setup evaluation
	@$(PYTHON) -m workloads experiment all $(EVALUATION)

deploy-local: setup ## cdk bootstrap and cdk deploy, unmodified, to a local emulator
	@$(PYTHON) -m infra.deploy_local $(if $(STACK),--stack $(STACK))

PYTEST := $(PYTHON) -m pytest --dist loadgroup --no-loadscope-reorder

test: ## the whole gate
	@.ci/setup tests
	@$(MAKE) --no-print-directory -j2 check compiled
	@$(PYTEST) -n 6

# Or each of the six compiles all tests at the same time: 17 s of processor time each.
compiled:
	@mkdir -p build && { $(PYTHON) -m pytest --collect-only -q >build/collected 2>&1 || { cat build/collected; exit 1; }; }

check: ## format, lint and types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/clang-format --dry-run -Werror redis_patch/*/*.[ch]
	@command -v cppcheck >/dev/null || { echo "cppcheck is missing: run '.ci/setup tests'" >&2; exit 1; }
	@$(CPPCHECK) -I redis_patch/core redis_patch/*/*.c
	@.venv/bin/mypy

# Without a server: about a minute for all of them.
FAST_TESTS := tests/sidecar/servers/test_actuator_on_models.py \
	tests/sidecar/servers/test_apply_transitions.py tests/sidecar/delivery/test_certificate_fetches.py \
	tests/sidecar/delivery/test_notification_check.py tests/sidecar/plans/test_plan_check.py tests/sidecar/plans/test_plan_figures.py \
	tests/sidecar/plans/test_plan_harm.py tests/sidecar/plans/test_plan_knowledge.py tests/sidecar/servers/sizes/test_shrink_guard.py \
	tests/sidecar/delivery/test_signing_certificate.py tests/sidecar/servers/sizes/test_transitions.py \
	tests/solver_lambda/test_plan_words.py tests/workloads/test_fault_model.py

portable: ## the core of the sampler on ARM64 (emulated), the module by another compiler, Valkey by CMake
	@redis_patch/build.sh portable
	@$(PYTHON) -m pytest -q -n 0 tests/redis_patch/test_sampler_core.py tests/redis_patch/test_supported_servers.py \
		-k 'vector or cmake'

experiments: ## tests of what measures, which take minutes: every study in its short form
	@$(PYTEST) -n 2 -m experiment

properties: ## property tests by random examples, ROUNDS (5) times; the gate's are always the same
	@for round in $$(seq $(or $(ROUNDS),5)); do \
		$(PYTEST) -n 2 -q -m hypothesis --hypothesis-profile=search || exit 1; done

coverage: ## branches of what decides over sizes, and over whom to believe; a minute or two
	@.venv/bin/coverage run -m pytest -q $(FAST_TESTS)
	@.venv/bin/coverage report

mutation: ## the same files, changed in many places: does a fast test fail? Up to half an hour; see docs/develop/mutation.md
	@.venv/bin/mutmut run --max-children 2
	@.venv/bin/mutmut results

requirements: ## docs/operate/install/requirements.txt: what a node needs, with hashes, as the gate has it
	@echo setuptools | .venv/bin/uv pip compile pyproject.toml - -q -c .ci/constraints.txt --universal \
		--python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
		-o docs/operate/install/requirements.txt

format: ## bring all sources into their form
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .
	@.venv/bin/clang-format -i redis_patch/*/*.[ch]

clean: ## all that was built or installed here
	rm -rf .venv build demo-output infra/cdk.out infra/node_modules *.egg-info
