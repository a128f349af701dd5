# The commands of this repository. Each does first what it needs (packages, .venv, configure, build)
# and is quick where nothing changed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON_VENV := .venv/bin/python
PREFIX ?= /usr/local

# What `make train` runs.
TRAIN := build/release/bin/shardlight train examples/gpt.json

.PHONY: help setup build train test test-full bench docs format format-check lint install clean

help: ## Show this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## Install what is missing: packages, .venv
	@tools/setup.sh

build: setup build/release/build.ninja ## Build the programs, build/release/bin/shardlight
	@cmake --build --preset release --target shardlight shardlight-train

train: build ## Train a GPT on text, on 2 ranks at stage 3: a couple of minutes
	$(TRAIN)

test: setup build/release/build.ninja ## Build, and run all tests with tens of cases a property
	@tools/test.py

test-full: setup build/release/build.ninja build/asan/build.ninja build/tsan/build.ninja
test-full: ## The same with hundreds of cases and under the sanitizers
	@tools/time_core.sh
	@SHARDLIGHT_TEST_TIER=full tools/test.py --preset release --preset asan --preset tsan

bench: setup build/release/build.ninja ## Build and run the benchmarks: two hours or more
	@tools/bench.sh

docs: build ## Run the commands in README.md and docs/ and write what they print
	@$(PYTHON_VENV) tools/transcripts.py --write README.md docs

format: setup ## Format the C++ files
	@tools/format.sh

format-check: setup ## Name the C++ files that are not formatted
	@tools/format.sh --check

lint: setup build/dev/build.ninja ## clang-tidy and shellcheck
	@tools/lint.sh

install: build ## Install library and program under PREFIX (/usr/local)
	cmake --build --preset release --target shardlight/all
	cmake --install build/release --prefix $(PREFIX)

clean: ## Remove all builds; .venv stays
	rm -rf build

# Configured from nothing when the presets change, and after a configure that was interrupted: what
# that left in the cache is not to be believed. Ninja sees to changes of the CMakeLists.txt files.
build/%/build.ninja: CMakePresets.json | setup
	@cmake --fresh --preset $*
