# Needs Go, Node with npm, git and make; everything else is pinned and fetched once. "make help" lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# ARGS goes to the program or the test run that a target starts, PKGS are the packages of "make test".
ARGS ?=
PKGS ?= ./...

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BUILD := go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)'
LINT := bin/tools/golangci-lint

# CROWDED are packages with tests of so many events that the race detector does not take them: they are skipped under it, and
# run once more without.
CROWDED := ./internal/engine/dispatch

# TOOLS are those of Cloudflare, which tests drive celld with. Its Go package takes a minute to build, and two tests build
# programs over it: it is built once, before them.
TOOLS := test/cloudflare/node_modules/.package-lock.json

# The race detector needs a C compiler, which is not a prerequisite; without one the tests run without it and say so.
RACE = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race,$(warning no C compiler found: the tests run without the race detector))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

.PHONY: build
build: assets ## build bin/runlot and bin/celld, and their pages for man
	@[ -e bin/runlot ] || echo "building bin/runlot and bin/celld (the first time takes a minute or two)"
	@$(BUILD) -o bin/runlot ./cmd/runlot
	@$(BUILD) -o bin/celld ./cmd/celld
	@bin/runlot man share/man/man1

# man finds share/man beside a bin that is in PATH.
.PHONY: man
man: build ## write the pages for man to share/man/man1

.PHONY: dev
dev: build ## build, then run the example app (Ctrl-C stops it)
	@bin/runlot dev examples/runlot-crawler $(ARGS)

.PHONY: test
test: assets $(TOOLS) ## run every test (fewer: PKGS=./internal/core/... ARGS='-run Settle')
	$(if $(filter ./...,$(PKGS)),cd test/cloudflare/gosdk && go build -o /dev/null .)
	go test $(RACE) -timeout 15m $(ARGS) $(PKGS)
	$(if $(filter ./...,$(PKGS)),go test -timeout 15m $(ARGS) $(CROWDED))
	$(if $(filter ./...,$(PKGS)),cd bench && go test $(RACE) $(ARGS) ./...)
	$(if $(filter ./...,$(PKGS)),cd deploy/check && go test $(ARGS) ./...)

# In its own folder, go test prints what the test prints and no more.
.PHONY: conformance
conformance: deps ## run the conformance cases and print what passed, by feature
	@cd test/conformance && go test -count=1 -timeout 15m -run '^TestConformance$$' -summary $(ARGS)

.PHONY: conformance-peers
conformance-peers: deps test/peers/node_modules/.package-lock.json ## run the same cases on workerd's own queue and on Miniflare
	@cd test/conformance && go test -count=1 -timeout 15m -run '^TestPeers$$' -peers ../peers $(ARGS)

# A failure leaves its input in testdata/fuzz, where "make test" tries it from then on.
FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## try random input on every parser, each for FUZZTIME (10s)
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9]+' internal | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		echo "$$name in ./$$dir"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $(ARGS) "./$$dir"; \
	done

.PHONY: lint
lint: $(LINT) ## check the Go code
	$(LINT) run $(ARGS) ./...
	cd bench && ../$(LINT) run $(ARGS) ./...
	cd deploy/check && ../../$(LINT) run $(ARGS) ./...
	cd test/cloudflare/gosdk && ../../../$(LINT) run $(ARGS) ./...
	cd examples/webhook-relay/consumer && ../../../$(LINT) run $(ARGS) ./...
	cd test/s3server && ../../$(LINT) run $(ARGS) ./...

.PHONY: fmt
fmt: $(LINT) ## format the Go code
	$(LINT) fmt

.PHONY: generate
generate: ## write the files that are generated from code
	go generate ./...

.PHONY: bench
bench: deps bench/node_modules/.package-lock.json ## measure, next to the peers; writes bench/results.json
	@cd bench && go build -trimpath -o ../bin/bench .
	@bin/bench $(ARGS)

# The peers and Cloudflare's tools have npm packages of their own, and those of the benchmarks a Go module, so that nothing of
# theirs comes near the product. npm writes .package-lock.json last.
bench/node_modules/.package-lock.json test/peers/node_modules/.package-lock.json $(TOOLS): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@echo "fetching the packages of $* (npm ci)"
	@cd $* && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: clean
clean: ## remove what was built and fetched; .runlot folders stay
	rm -rf bin share node_modules test/peers/node_modules test/cloudflare/node_modules
	rm -f $(ASSETS)/dist/*

# workerd and PostgreSQL come from npm. They are fetched again when package.json or package-lock.json has other content
# than at the last time, and only then. Install scripts are not needed and not run. A node_modules that is a link
# belongs to another working tree, which keeps it up to date.
.PHONY: deps
deps:
	@want="$$(cat package.json package-lock.json | cksum)"; \
	if [ -L node_modules ] || [ "$$(cat node_modules/.installed 2>/dev/null || true)" = "$$want" ]; then exit 0; fi; \
	command -v npm >/dev/null || { echo "make: npm is missing; install Node 20 or later (https://nodejs.org)" >&2; exit 1; }; \
	echo "fetching workerd and PostgreSQL (npm ci)"; \
	npm ci --ignore-scripts --include=optional --include=dev --no-audit --no-fund --loglevel=error; \
	echo "$$want" > node_modules/.installed

# What the page loads is bundled from its sources and npm packages, and embedded; without it the page says that it is missing.
ASSETS := internal/server/dashboard/assets
.PHONY: assets
assets: deps $(ASSETS)/dist/manifest.json ## bundle what the page loads, when its sources changed

$(ASSETS)/dist/manifest.json: $(wildcard $(ASSETS)/src/*) $(wildcard $(ASSETS)/bundle/*.go) package-lock.json | deps
	@go run ./$(ASSETS)/bundle

# Go tools have a module of their own, so that what they import never mixes with what the product imports. The binary
# is kept, since linking it takes longer than most lint runs.
$(LINT): tools/go.mod tools/go.sum
	@echo "building golangci-lint"
	@go build -modfile=tools/go.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@
