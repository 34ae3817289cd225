# Verbs only; what they do is in scripts/. Extra pytest arguments: make test ARGS="-k report"
.DEFAULT_GOAL := help
.PHONY: help setup build roots test compose releases accuracy demo bench lint asan fuzz deb rpm man clean
ARGS ?=
SECONDS ?= 60

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

setup: ## install what is missing here: Debian packages, .venv, the C parts, the demo's torch
	@scripts/setup.sh

build: ## compile the C core and the plugin again if their sources changed
	@scripts/setup.sh packages python build

roots: ## folders with newer Slurm releases, for cluster up --root: make roots ARGS="24.11"
	@scripts/setup.sh packages && scripts/roots.sh $(ARGS)

test: ## setup, then every test but make compose's, those on a private Slurm cluster too
	@scripts/setup.sh packages browser-packages python build demo frameworks
	@.venv/bin/python -m pytest --ignore=tests/compose $(ARGS)

compose: ## docker-compose.yml, really run; docker is installed and started if there is none
	@scripts/setup.sh packages compose-packages python build
	@.venv/bin/python -m pytest -s tests/compose $(ARGS)

releases: ## setup, roots, then every test that needs a cluster, on each newer Slurm
	@scripts/setup.sh && scripts/releases.sh $(ARGS)

accuracy: ## ask gangstart triage about every labelled case and write docs/accuracy.md
	@scripts/setup.sh packages python build && .venv/bin/python tests/triage/accuracy.py --write

demo: ## setup, then a training and a refused start on a private 4-node Slurm cluster
	@scripts/demo.sh

bench: ## setup, then measure against the goals of docs/performance.md
	@scripts/setup.sh && scripts/bench.sh $(ARGS)

lint: ## format, static analysis, types, shell, words
	@scripts/setup.sh packages lint-packages python build && scripts/lint.sh

asan: ## core, NVML and plugin tests with AddressSanitizer and UBSan, in build/asan
	@scripts/setup.sh packages python build && scripts/asan.sh $(ARGS)

fuzz: ## everything that reads foreign bytes, under libFuzzer: make fuzz SECONDS=60 each
	@scripts/setup.sh packages lint-packages && scripts/fuzz.sh $(SECONDS)

deb: ## two Debian packages into dist/, checked by lintian: commands, and what nodes need
	@scripts/setup.sh packages deb-packages python build && scripts/deb.sh

rpm: ## the same as RPM packages, checked by rpmlint
	@scripts/setup.sh packages rpm-packages python build && scripts/rpm.sh

man: ## the manual pages again from the tables of options, keys and checks
	@scripts/setup.sh packages python build && .venv/bin/python scripts/man.py

clean: ## remove what was built; .venv stays
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache launcher/*.egg-info
	@rm -f launcher/gangstart/*.so launcher/gangstart/plugins/*.so launcher/gangstart/_core.c launcher/gangstart/gangstart-probe
