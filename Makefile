# Everything that is run by hand or by CI is here. `make check` is what CI runs.

SHELL := bash
.SHELLFLAGS := -o pipefail -c
BIN   := bin/isogloss
LINT  := $(shell go env GOPATH)/bin/golangci-lint
LINT_VERSION := v2.13.0
VERSION ?= dev
FUZZTIME ?= 5s
SOAK ?= 2m

.PHONY: build check format vet lint stores test timing fuzz fuzz-crashes conform e2e crowd chaos chaos-short cluster cluster-short soak bench bench-quick generate tidy clean

build: ## the binary
	go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN) ./cmd/isogloss

check: format vet tidy lint test conform e2e chaos-short cluster-short soak bench-quick fuzz-crashes ## all that must pass before a change lands

format:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }

vet:
	go vet ./...
	cd e2e && go vet ./...

tidy:
	go mod tidy -diff
	cd e2e && go mod tidy -diff

$(LINT):
	go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

lint: $(LINT)
	$(LINT) run ./...
	cd e2e && $(LINT) run --config ../.golangci.yml ./...

stores: ## the stores that tests run, where they are not installed
	./internal/storetest/setup.sh

test: stores ## everything but the SDKs, with the race detector
	go test -race -shuffle=on ./...

timing: ## whether the time of a key's check tells anything of the key; wants a quiet machine
	go test -count=1 -v -run Timing ./internal/access

fuzz: ## every fuzz target for as long as FUZZTIME says, for example FUZZTIME=10m
	./fuzz.sh $(FUZZTIME) all

fuzz-crashes: ## the same, but a law that a random input breaks is only printed
	./fuzz.sh $(FUZZTIME) crashes

conform: build ## the corpus of conversations, on all sixteen cells
	$(BIN) conform --direct | tail -n 1
	$(BIN) conform

e2e: build ## real clients and a real engine against the built binary; PARTS="sdks agents" runs some
	cd e2e && go test -count=1 . && ISOGLOSS_BIN=$(CURDIR)/$(BIN) go run . $(PARTS)

crowd: build ## 32 clients of mixed SDKs on a real engine for ten minutes
	cd e2e && CROWD=10m ISOGLOSS_BIN=$(CURDIR)/$(BIN) go run . crowd

chaos: build ## every way to fail, against the built binary; writes docs/reliability.md
	go run ./chaos --bin $(BIN) --write docs/reliability.md

chaos-short: build ## the same in less than three minutes
	go run ./chaos --bin $(BIN) --short

cluster: build stores ## three nodes on real stores that fail; writes docs/operations/cluster.md
	go run ./cluster --bin $(BIN) --write docs/operations/cluster.md

cluster-short: build stores ## the same in less than four minutes
	go run ./cluster --bin $(BIN) --short

soak: build ## mixed failures for as long as SOAK says, for example SOAK=30m
	go run ./chaos --bin $(BIN) --soak $(SOAK)

bench: build ## what it costs, beside others, into docs/performance.md; PEERS="--peer NAME=URL,PID" adds one
	./bench/setup.sh
	go build -o bin/bench ./bench
	bin/bench --page docs $(PEERS)

bench-quick: build ## the ratios only, held to bench/limits.go
	go build -o bin/bench ./bench
	bin/bench --quick

generate: ## files that are made from code: the configuration reference, the loss table
	go test ./internal/config -run TestReference -update
	go test ./protocol/loss -run TestPages -update

clean:
	rm -rf bin
