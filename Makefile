# netkvlab: every step of CI is a target here and runs on a laptop.
# Only test, test-root, test-e2e, demo, vm-test, bench and paper-packet need root; they use sudo if you are not root.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The first Go on this machine that can build the module (see scripts/deps.sh).
GO := $(shell scripts/deps.sh --print-go)
GOFMT = $(shell $(GO) env GOROOT)/bin/gofmt
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GOLANGCI_VERSION := v2.12.2
# The linter is built from source in minutes, so it is kept in a folder that all clones use.
GOLANGCI := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/netkvlab/golangci-lint-$(GOLANGCI_VERSION)
# The flags are the same everywhere, so program, linter and all tests except those under the
# race detector share one set of compiled packages.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
SCRIPTS := $(shell git ls-files '*.sh' 2>/dev/null) .ci/run test/vm/init
FUZZTIME ?= 20s
BENCH ?= .
SCENARIO ?= scenarios/quickstart.yaml

.PHONY: help
help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what is missing on Debian or Ubuntu (scripts/commands.txt)
	scripts/deps.sh

.PHONY: build
build: ## Build bin/netkvlab, one static binary
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/netkvlab ./cmd/netkvlab

.PHONY: demo
demo: ## Install what is missing, build, and run the quickstart
	scripts/deps.sh
	$(MAKE) --no-print-directory build
	$(SUDO) bin/netkvlab up $(SCENARIO)

.PHONY: test
test: build ## Run all tests: unit, kernel (root), timing (root), end to end (root)
	GO='$(GO)' scripts/test.sh unit kernel timing e2e

.PHONY: test-unit
test-unit: ## Run the tests that need no root, under the race detector
	GO='$(GO)' scripts/test.sh unit

.PHONY: test-root
test-root: ## Run the tests that make namespaces, one package at a time
	GO='$(GO)' scripts/test.sh kernel timing

.PHONY: test-e2e
test-e2e: build ## Run the tests that drive bin/netkvlab
	GO='$(GO)' scripts/test.sh e2e

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz.sh

.PHONY: bench
bench: build ## Run the benchmarks; BENCH=regexp chooses
	$(GO) test $(if $(SUDO),-exec sudo) -p 1 -run '^$$' -bench '$(BENCH)' -benchmem ./... | grep -v -e 'no test files' -e '^PASS$$'

.PHONY: lint
lint: $(GOLANGCI) ## gofmt, go vet, golangci-lint, shellcheck
	@unformatted=$$($(GOFMT) -l .); \
	  if [ -n "$$unformatted" ]; then echo "not gofmt-clean (run make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -C tools ./...
	GOLANGCI_LINT_CACHE='$(CURDIR)/bin/lint-cache' $(GOLANGCI) run --allow-parallel-runners ./...  # its cache mixes up clones
	cd tools && GOLANGCI_LINT_CACHE='$(CURDIR)/bin/lint-cache' $(GOLANGCI) run --allow-parallel-runners ./...
	@if command -v shellcheck >/dev/null; then echo shellcheck $(SCRIPTS); shellcheck $(SCRIPTS); else echo "shellcheck is not installed: scripts not checked"; fi

$(GOLANGCI):
	mkdir -p $(@D)
	work=$$(mktemp -d $(@D)/build.XXXXXX); trap 'rm -rf "$$work"' EXIT; \
	  GOBIN="$$work" GOFLAGS=-trimpath $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION); \
	  mv "$$work/golangci-lint" $@

.PHONY: fmt
fmt: ## Format the Go code
	$(GOFMT) -w .

.PHONY: generate
generate: ## Regenerate checked-in files; fails when that changes one
	$(GO) generate ./...
	cd tools && $(GO) mod tidy  # it requires what the module above requires
	@git diff --exit-code --stat || { echo "generated files were out of date: commit the difference"; exit 1; }

.PHONY: paper
paper: ## Run the paper's tables in the flow world and write docs/paper.md
	$(GO) run -C tools ./paper/write -run -version '$(VERSION)'

.PHONY: paper-calibrate
paper-calibrate: ## Find the parameters that the paper leaves open (minutes)
	$(GO) run -C tools ./paper/calibrate -write ../scenarios/paper/paper-table2.yaml

PAPER_SEEDS ?= 1,2,3
.PHONY: paper-packet
paper-packet: build ## Run Table II's 100 % rows in a lab (root, ten minutes a seed) and write them into docs/paper.md
	rm -rf bin/paper-packet
	$(SUDO) bin/netkvlab up paper-table2 --worlds packet --seeds $(PAPER_SEEDS) --set workload.synthetic.requests=200 \
		--set scale.rate=auto --out bin/paper-packet
	$(GO) run -C tools ./paper/write -packet 'paper-table2/100%' ../bin/paper-packet

.PHONY: vm-test
vm-test: build ## Run netkvlab on Debian's stock kernel in a virtual machine
	test/vm/test.sh

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
