# Every target sets up what it needs by itself. `make help` lists them.

JOBS ?= $(shell nproc)
BUILD := build
CONFIGURE := cmake --log-level=WARNING >/dev/null

# What `cmake --install` takes.
PACKAGED := sparkpilot sparkpilot_library c_shared sim_shared sparkpilot_mpi sparkpilot_python

.DEFAULT_GOAL := help
.PHONY: help deps build test drive tiny-model wheel package package-arm64 test-package test-python test-reproducible test-release lint bench gpu-check gpu-budget \
  fuzz sanitize arm64 peers clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what the build needs (apt; asks for nothing when all is there)
	@scripts/install_deps.sh build

build: deps ## build/sparkpilot and the tests
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS)

test: build ## every test, and the sanitizer build of what reads foreign bytes
	@JOBS=$(JOBS) scripts/test.sh

drive: deps ## drive a synthetic route with a small model (ROUTE=... MODELS=DIR: real ones)
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target sparkpilot
	@scripts/drive.sh

tiny-model: deps ## train models/demo_supercombo.onnx anew: 30 GB of synthetic roads, 17 minutes on two cores (SEED=n)
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target sparkpilot
	@scripts/tiny_model.sh

wheel: deps ## out/sparkpilot-*.whl: the Python package with the program in it (docs/python.md)
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target sparkpilot sparkpilot_library sparkpilot_python sim_shared
	@/usr/bin/python3 scripts/make_wheel.py $(BUILD)

lint: ## clang-format on all files, clang-tidy on the changed ones (ALL=1: on all)
	@scripts/install_deps.sh build lint
	@ALL=$(ALL) JOBS=$(JOBS) scripts/lint.sh

bench: build ## compare the speed with ONNX Runtime's; prints a table, writes out/benchmarks.json
	@scripts/install_deps.sh peers
	@scripts/make_peers.sh onnxruntime
	@.venv/bin/python bench/peers/compare_onnxruntime.py --json out/benchmarks.json

gpu-check: deps ## pack out/gpu_check.tar.gz, which checks and measures a machine with an NVIDIA GPU
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target gpu_check
	@scripts/pack_gpu_check.sh

fuzz: ## every fuzz target for 60 seconds (SECONDS_EACH=n changes that)
	@scripts/install_deps.sh build fuzz
	@scripts/fuzz.sh $(or $(SECONDS_EACH),60)

sanitize: deps ## unit, conformance and end-to-end tests under the address and undefined-behaviour sanitizers
	@$(CONFIGURE) --preset sanitize
	@cmake --build build-asan -j $(JOBS)
	@LSAN_OPTIONS=suppressions=$(CURDIR)/tests/leaks.txt:print_suppressions=0 \
	  ctest --test-dir build-asan -LE '^(peers|gpu)$$' -j $(JOBS) --output-on-failure

gpu-budget: deps ## what each CUDA kernel takes of a GPU, held to its budget; needs nvcc (UPDATE=1: writes the budget)
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target ops
	@scripts/gpu_budget.py $(BUILD)/generated/ops/cuda $(if $(UPDATE),--update)

arm64: build ## build for 64-bit Arm, run its tests under qemu and compare the program with this machine's
	@scripts/install_deps.sh build cross
	@JOBS=$(JOBS) scripts/arm64.sh

peers: ## the engines that we are compared with (.venv, from the network, 4.5 GB)
	@scripts/install_deps.sh peers
	@scripts/make_peers.sh

test-python: build ## the Python package's tests with NumPy 2, PyTorch, Gymnasium, Stable-Baselines3 (.venv, from the network, 4.5 GB)
	@scripts/install_deps.sh peers
	@scripts/test_python.sh

package: deps ## out/sparkpilot_*.deb: program, libraries, headers, manual pages (docs/install.md)
	@scripts/install_deps.sh build package
	@$(CONFIGURE) --preset release
	@cmake --build $(BUILD) -j $(JOBS) --target $(PACKAGED)
	@scripts/package.sh $(BUILD)

package-arm64: ## the same for 64-bit Arm, of what `make arm64` built, and tested (as root; needs network and qemu-user-static)
	@scripts/install_deps.sh package
	@scripts/package_arm64.sh

test-package: ## install that package in a fresh root, use it without a network, remove it (as root; needs network)
	@scripts/install_deps.sh package
	@scripts/test_package.sh

test-reproducible: ## build and pack the last commit twice, in two folders: the same bytes
	@JOBS=$(JOBS) scripts/test_reproducible.sh $(CLONE)

test-release: ## build and run the tests in a root of another release, SUITE=trixie or noble (as root; needs network)
	@scripts/install_deps.sh package
	@scripts/test_release.sh $(SUITE)

clean: ## remove everything that was built
	rm -rf build build-* out
