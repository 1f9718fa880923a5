# Everything here does its own set-up on a fresh Debian 12 with Go, gcc and root.
#
#   make demo    the main job: a server and a client process, real files, all checked
#   make test    all tests, the concurrent packages again under the race detector, what uses messages again with each message
#                overwritten when its views end (-tags invariants)
#   make lint    formatting, vet, staticcheck, a build without cgo, vet for other systems (make elsewhere)
#   make race    every test under the race detector (slow)
#   make soak    worlds of servers, clients and faults under simulated time, for SOAKTIME
#   make fuzz    every fuzz target in turn, FUZZTIME each
#   make bench   against raw TCP, gRPC, net/rpc and go-nfs on this machine, as a table of targets (BENCHFLAGS="-only bulk": a
#                part; "-before PROGRAM": beside another build of it, from go -C test/bench build -o PROGRAM of another commit)
#   make bench-report   the same, and the charts: docs/performance.md again, some ten minutes (REPORTFLAGS="-only bulk": a part)
#   make conformance  the specifications, sentence by sentence, with the tests that show each; faults made on purpose,
#                each of which has its place in the code and is found by a test
#   make interop FABRIC=siw   against the Linux kernel's client and server, in virtual machines (root, Debian 12)
#   make interop-smoke        the few cases of it that show that it works at all
#   make build   bin/rpcrdma, and the plugins bin/rpcrdma-ext-*

SHELL   := /bin/bash
GO      ?= go
FUZZTIME ?= 60s
SOAKTIME ?= 30m
BENCHFLAGS ?=
REPORTFLAGS ?=
DEMOFLAGS ?=
FABRIC  ?= siw
INTEROPFLAGS ?=

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -X github.com/rpcrdma/rpcrdma/cli.stamped=$(VERSION) -X "github.com/rpcrdma/rpcrdma/cli.built=$(CURDIR)"
TOOLS   := $(CURDIR)/.tools

# Packages with goroutines of their own: these run under the race detector in `make test`.
RACE := core/engine core/rpc core/tcp providers/soft/qp providers/loopback providers/iwarp ulp/nfs props extensions tracing gateway test/faults test/plugins cli/capture cli/demo

# What programs import, and the systems other than linux/amd64 that it builds on.
PORTABLE  := ./core/... ./props/... ./providers/... ./ulp/nfs ./ulp/nfs/nfs3 ./ulp/nfs/mount3
ELSEWHERE := linux/arm64 darwin/arm64 freebsd/amd64 windows/amd64

# Modules of their own, so that their dependencies stay out of the main one.
NESTED := test/bench examples/unixsock

.PHONY: demo test lint elsewhere race soak fuzz bench bench-report conformance interop interop-smoke build clean
.DEFAULT_GOAL := build

build:
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: build
	./bin/rpcrdma demo $(DEMOFLAGS)

test:
	tools/need test
	$(GO) test ./...
	tools/race $(RACE)
	RPCRDMA_SOAK_SEEDS=10000 $(GO) test -tags invariants ./test/soak ./test/hostile
	$(GO) test -tags invariants ./core/rpc ./ulp/nfs/... ./props ./extensions/x/...
	@set -e; for d in $(NESTED); do echo "$(GO) -C $$d test ./..."; $(GO) -C $$d test ./...; done

race:
	tools/need test
	$(GO) test -race -timeout 30m ./...

lint: $(TOOLS)/staticcheck
	tools/gofmt
	$(GO) vet ./...
	$(TOOLS)/staticcheck ./...
	CGO_ENABLED=0 $(GO) build ./...
	@$(MAKE) --no-print-directory elsewhere
	@set -e; for d in $(NESTED); do echo "$$d: vet, staticcheck"; \
	  $(GO) -C $$d vet ./...; (cd $$d && $(TOOLS)/staticcheck ./...); done

# What programs import builds on each of these systems, tests included; the tests run on Linux.
elsewhere:
	@set -e; for s in $(ELSEWHERE); do echo "$$s: vet $(PORTABLE)"; \
	  CGO_ENABLED=0 GOOS=$${s%/*} GOARCH=$${s#*/} $(GO) vet $(PORTABLE); done

soak:
	RPCRDMA_SOAK_TIME=$(SOAKTIME) $(GO) test -tags invariants -timeout 0 -v ./test/soak

fuzz:
	tools/fuzz $(FUZZTIME)

bench:
	$(GO) -C test/bench run . $(BENCHFLAGS)

bench-report:
	$(GO) -C test/bench run . report $(REPORTFLAGS)

conformance:
	$(GO) run ./test/conformance

# go run builds the suite; it builds the programs that it runs, and the lab, itself.
interop:
	$(GO) run ./test/interop -fabric $(FABRIC) $(INTEROPFLAGS)

interop-smoke:
	$(GO) run ./test/interop -fabric $(FABRIC) -smoke $(INTEROPFLAGS)

clean:
	rm -rf bin .tools

# staticcheck is pinned by tools/lint/go.mod.
$(TOOLS)/staticcheck: tools/lint/go.mod tools/lint/go.sum
	@mkdir -p $(TOOLS)
	$(GO) -C tools/lint build -o $@ honnef.co/go/tools/cmd/staticcheck
	@touch $@
