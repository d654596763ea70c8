.PHONY: setup demo deploy-local test check format clean
PYTHON := .venv/bin/python
# Node, where .ci/setup had to bring it, lies beside Python.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
CPPCHECK := cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr \
	--enable=warning,style,performance,portability

setup: ## install everything: system packages, .venv/, the CDK command, the servers in build/
	@.ci/setup

demo: setup ## static split against SPREDS, on this machine, in under five minutes
	@$(PYTHON) -m workloads demo $(DEMO)

deploy-local: setup ## cdk bootstrap and cdk deploy, unmodified, to a local emulator
	@$(PYTHON) -m infra.deploy_local

test: ## the whole gate
	@.ci/setup tests
	@$(MAKE) --no-print-directory check
	@$(PYTHON) -m pytest -n 2 --dist loadgroup

check: ## format, lint and types
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/clang-format --dry-run -Werror redis_patch/*.[ch]
	@command -v cppcheck >/dev/null || { echo "cppcheck is missing: run '.ci/setup tests'" >&2; exit 1; }
	@$(CPPCHECK) redis_patch/*.c
	@.venv/bin/mypy

format:
	@.venv/bin/ruff format .
	@.venv/bin/ruff check --fix .
	@.venv/bin/clang-format -i redis_patch/*.[ch]

clean: ## all that was built or installed here
	rm -rf .venv build demo-output infra/cdk.out infra/node_modules *.egg-info
