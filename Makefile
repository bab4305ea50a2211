# Every command that people and CI run. CI runs the targets of `make check`.

SHELL := bash
.SHELLFLAGS := -o pipefail -c
BIN   := bin/isogloss
GOBIN := $(shell go env GOPATH)/bin
LINT  := $(GOBIN)/golangci-lint
LINT_VERSION := v2.13.0
TRY   := $(CURDIR)/tools/try.sh
# One set of flags for everything that Go builds here, so that each package is compiled once. The race detector
# needs cgo and a compilation of its own.
export GOFLAGS := $(shell ./deploy/goflags.sh)
export CGO_ENABLED := 0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 5s
SOAK ?= 60s
ROLLOUT ?= 10m
SEED ?= 1
N ?= 5000
MUTANTS ?= 200

SCALE ?= 2m
SCALE_TOOLS ?= $(HOME)/.cache/isogloss-scale
.PHONY: tools alone recipes growth-short e2e-short coverage claims mutants help build dev check-fast testing-times console console-pictures recording e2e-console e2e-console-short e2e-console-scale check targets format vet lint stores scale clickhouse clickhouse-large ledger-scale ledger-large test test-plain test-race clouds growth identity dashboards timing fuzz conform conform-random library e2e e2e-moves e2e-signin e2e-parquet crowd chaos chaos-short redteam redteam-confined vulncheck cluster cluster-short rollout soak bench streams flames bench-quick generate image manifests release test-deploy test-deploy-all tidy clean

.DEFAULT_GOAL := build

help: ## this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "%-20s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

build: ## the binary, statically linked
	VERSION=$(VERSION) ./deploy/build.sh $(BIN)

dev: ## a gateway with the console and a scripted upstream, built again when a source changes; Ctrl-C ends it
	./examples/dev/run.sh

check-fast: ## what to run after each change: build, vet, lint of what changed, short tests, conformance; in about four minutes
	./check-fast.sh

testing-times: ## writes docs/testing-times.txt, by which check-fast leaves out packages with long tests; needs an idle machine
	./check-fast.sh --measure

console: ## the web console in console/dist, which the binary embeds; needs Node and npm
	./console/build.sh

e2e-console: build ## the console in Chromium against the built binary; screenshots in console/shots; PAGES="keys teams" runs some
	./console/test/setup.sh
	./console/build.sh
	cd console && PAGES="$(PAGES)" ISOGLOSS_BIN=$(CURDIR)/$(BIN) npm test

e2e-console-short: ## a selection of the console's tests, in about a minute
	$(MAKE) e2e-console PAGES="access capture exchanges names"

console-pictures: ## the pictures of the console in docs/images
	./console/test/setup.sh
	VERSION=dev ./deploy/build.sh $(BIN)
	cd console && PICTURES=1 ISOGLOSS_BIN=$(CURDIR)/$(BIN) node test/pictures.mjs

recording: build ## the terminal in docs/recording.svg, from a run of the built binary
	./examples/recording/run.sh $(BIN) docs/recording.svg

e2e-console-scale: build ## the console with a million requests in the ledger, and with 500 requests a second
	./console/test/setup.sh
	./console/build.sh
	go build -o bin/console-scale ./console/test/scale
	cd console && ISOGLOSS_BIN=$(CURDIR)/$(BIN) SCALE_BIN=$(CURDIR)/bin/console-scale npm run test:scale

# The longest come first, because .ci/run starts them in this order.
CHECK := test-race test-plain lint e2e-short cluster-short chaos-short test-deploy redteam growth-short soak conform e2e-console-short tidy format
ALONE := bench-quick

check: $(CHECK) $(ALONE) ## everything that must pass before a change lands

targets: ## the targets of check that may run at the same time, one line
	@echo $(CHECK)

alone: ## the targets of check that measure, and run by themselves; one line
	@echo $(ALONE)

tools: stores $(LINT) ## installs what the targets of check need: stores, a browser, SDKs, agents, an engine, the linter, modules
	./console/test/setup.sh
	./deploy/test/setup.sh
	./bench/setup.sh
	./e2e/setup.sh
	for module in . e2e deploy; do (cd $$module && $(TRY) "the Go module proxy" go mod download) || exit 1; done

format: ## that every Go file has the form of gofmt
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); echo "run gofmt -w on these"; exit 1; }

vet: ## go vet, of the three modules
	go vet ./...
	cd e2e && go vet ./...
	cd deploy && go vet ./...

tidy: ## that go.mod and go.sum of the three modules have what the code needs, and no more
	go mod tidy -diff
	cd e2e && go mod tidy -diff
	cd deploy && go mod tidy -diff

$(LINT):
	$(TRY) "the Go module proxy" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

lint: $(LINT) ## golangci-lint, of the three modules; installs it
	$(LINT) run ./...
	cd e2e && $(LINT) run --config ../.golangci.yml ./...
	cd deploy && $(LINT) run --config ../.golangci.yml ./...

stores: ## installs the stores that tests need
	./internal/test/storetest/setup.sh

test: test-plain test-race ## all Go tests without e2e

# PLAIN are the packages whose tests gain nothing from the race detector: the codecs, the corpus, the claims, the rules of
# the tree, and programs that start the built gateway. Each night test-race runs them too.
PLAIN := ./llm/... ./sse/... ./protocol/... ./translate/... ./examples/... ./gateway/... ./conform/... ./cmd/... ./bench/... ./chaos/... ./cluster/... ./redteam/... ./scale/... ./claims .

# UNRACED_TESTS are in files that the race detector leaves out, because it changes what they measure, or because they
# only compute.
UNRACED_TESTS := ^(TestWaitingStream|TestCheckDoesNotAllocate|TestReplayedConversations|TestReplayedVariants|TestReplayWhileEnginesComeAndGo|TestThreeGatewaysAgree)$$

test-plain: stores ## the tests of codecs, of the corpus, of the commands, of the claims and of the tree, without the race detector
	go test -vet=off -shuffle=$(SHUFFLE) -timeout 25m $(PLAIN)
	go test -vet=off -run '$(UNRACED_TESTS)' ./internal/people/access ./internal/app ./internal/request/relay ./internal/targets/balance
	go test -vet=off -tags=grpcnotrace,testunit -run '$(UNIT_TESTS)' ./llm ./internal/money/usage ./internal/app

# UNIT_TESTS follow a unit of usage that only the build tag testunit adds through the whole gateway.
UNIT_TESTS := ^(TestUnit|TestUnits|TestUsageSums|TestEveryFieldArrives|TestMapsOfUnits|TestPartOfAUnit)$$

SHUFFLE ?= on
PKGS ?= $(filter-out $(shell go list $(PLAIN)),$(shell go list ./...))
# SQLite is translated C with locks of its own. With the race detector on it, the tests of the store take more than twice
# the CPU.
UNRACED := -gcflags=modernc.org/...=-race=false

test-race: stores ## all other Go tests, with the race detector; PKGS=./internal/ledger/store SHUFFLE=7 runs some with that seed
	CGO_ENABLED=1 go test -race $(UNRACED) -vet=off -shuffle=$(SHUFFLE) -timeout 25m $(PKGS)

dashboards: stores ## the alert rules and dashboards on a real Prometheus; a part of test
	go test -count=1 -v -run 'TestAlertRules|TestDashboards' ./internal/app

identity: stores ## sign-in with a real Keycloak, as docs/identity.md says: 1,000 people, rotated keys, an outage
	./internal/test/storetest/keycloak.sh $(HOME)/.cache/isogloss
	ISOGLOSS_KEYCLOAK=$(HOME)/.cache/isogloss go test -count=1 -v -tags keycloak -timeout 30m -run TestKeycloak ./internal/app

CLOUDS := $(HOME)/.cache/isogloss/clouds

clouds: build ## the clouds' SDKs for Python as clients, judges of requests and verifiers of signatures; tokens that expire under load
	./internal/targets/cloud/setup.sh $(CLOUDS)
	ISOGLOSS_CLOUDS=$(CLOUDS) go test -count=1 -v -run TestSecondOpinion ./internal/targets/cloud
	go test -run '^$$' -bench . -benchtime 2000x ./internal/targets/cloud
	$(CLOUDS)/bin/python e2e/converse/check.py $(BIN)
	$(CLOUDS)/bin/python e2e/clouds/check.py $(BIN)
	$(CLOUDS)/bin/python e2e/sdks/check.py $(BIN)
	$(CLOUDS)/bin/python e2e/clouds/expiry.py $(BIN)

growth: ## that the time and the memory of translation stay in proportion to the text
	go test -count=1 -tags growth -timeout 30m -run 'TestWorkGrowsLinearly|TestMemoryOfTranslation' ./protocol/all

growth-short: ## the same with one codec for each kind of text
	go test -short -count=1 -vet=off -tags growth -timeout 30m -run 'TestWorkGrowsLinearly|TestMemoryOfTranslation' ./protocol/all

claims: ## whether the tests of each promise fail when the promise is false; ONLY='^cut/' plays some
	go run ./claims -timeout 30m -only '$(ONLY)'

mutants: stores ## draws MUTANTS changes of the code with SEED and reports which of them the tests catch; ONLY='^internal/money/quota/' draws from some
	go run ./claims -timeout 30m -mutants $(MUTANTS) -seed $(SEED) -only '$(ONLY)'

recipes: ## follows the recipes of docs/architecture.md in copies of the tree, and builds and tests the copies
	./console/build.sh
	RECIPES=1 go test -count=1 -v -run TestRecipes .

timing: ## whether the duration of a key check reveals anything about the key; needs an idle machine
	go test -count=1 -v -tags timing -run Timing ./internal/people/access

fuzz: ## every fuzz target for FUZZTIME, for example FUZZTIME=10m
	./fuzz.sh $(FUZZTIME)

conform: build ## the conformance corpus on all 25 dialect pairs
	$(BIN) conform --direct | tail -n 1
	$(BIN) conform
	$(BIN) conform --random --seed 1 --n 150

conform-random: build ## random conversations on all 25 dialect pairs; SEED=7 N=5000
	$(BIN) conform --random --seed $(SEED) --n $(N)

library: ## the whole conformance corpus through the packages that others import
	go test -count=1 -timeout 30m ./translate ./gateway -run "TestCorpus|TestRandom" -whole

e2e: build ## real clients and a real engine against the built binary; PARTS="sdks agents" runs some, WRITE=1 writes docs/evidence/compatibility.md
	cd e2e && go test -count=1 . && ISOGLOSS_BIN=$(CURDIR)/$(BIN) go run . $(if $(WRITE),-update) $(PARTS)

e2e-short: build ## one client for each pair of dialects, in a few minutes
	cd e2e && go test -count=1 . && ISOGLOSS_BIN=$(CURDIR)/$(BIN) go run . -short

e2e-moves: build ## conversations of all agents that move between every two vendors; half an hour
	cd e2e && ./setup.sh agents && ISOGLOSS_BIN=$(CURDIR)/$(BIN) go test -count=1 -tags long -timeout 2h -run TestMoves ./agents

e2e-signin: stores build ## Claude Code, codex and gemini-cli sign in at a real Keycloak, compared with Claude Code's reference gateway; WRITE=1 writes the page
	./internal/test/storetest/keycloak.sh $(HOME)/.cache/isogloss
	cd e2e && ./setup.sh signin && ISOGLOSS_KEYCLOAK=$(HOME)/.cache/isogloss ISOGLOSS_BIN=$(CURDIR)/$(BIN) go test -count=1 -v -tags signin -timeout 30m -run TestSignIn ./agents $(if $(WRITE),-update)

e2e-parquet: ## exported files, read by PyArrow and DuckDB
	cd e2e && ./setup.sh parquet
	ISOGLOSS_PARQUET_PYTHON=$${ISOGLOSS_E2E_CACHE:-$$HOME/.cache/isogloss-e2e}/python-parquet/bin/python go test -count=1 -run TestPython ./internal/api/export

crowd: build ## 32 clients of mixed SDKs on a real engine for ten minutes
	cd e2e && CROWD=10m ISOGLOSS_BIN=$(CURDIR)/$(BIN) go run . crowd

chaos: build ## failing upstreams against the built binary; writes docs/reliability.md
	go run ./chaos --bin $(BIN) --write docs/reliability.md

chaos-short: build ## a selection of chaos
	go run ./chaos --bin $(BIN) --short

redteam: build stores ## attacks on the built binary, a selection of the slow ones; ONLY='^json/' runs some
	go run ./redteam --bin $(BIN) --short --only '$(ONLY)'

redteam-confined: build ## redteam as another user without rights, on a read-only file system
	go build -o bin/redteam ./redteam
	./redteam/confined.sh bin/redteam $(BIN) --only '$(ONLY)'

vulncheck: ## known vulnerabilities of the modules, by Go's list, which it gets from the network
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

cluster: build stores ## three nodes on failing stores; writes docs/operations/cluster.md and failures.md
	go run ./cluster --bin $(BIN) --write docs/operations

cluster-short: build stores ## a selection of cluster
	go run ./cluster --bin $(BIN) --short

rollout: build stores ## the nodes behind HAProxy replaced one by one, with streams of ROLLOUT; takes about four times as long
	go run ./cluster --bin $(BIN) --only rollout --streams $(ROLLOUT)

soak: build ## mixed failures for SOAK, for example SOAK=30m
	go run ./chaos --bin $(BIN) --soak $(SOAK)

scale: build stores ## gateways, Kafka, NATS, Redis and consumers that are killed and frozen for SCALE each, with ClickHouse and PostgreSQL; writes docs/scale.md; installs them
	scale/tools.sh $(SCALE_TOOLS)
	ISOGLOSS_SCALE_PAGE=$(CURDIR)/docs/scale.md ISOGLOSS_BINARY=$(abspath $(BIN)) ISOGLOSS_SCALE=$(SCALE) ISOGLOSS_KAFKA_LIB=$(SCALE_TOOLS)/kafka/lib ISOGLOSS_NATS_SERVER=$$(command -v nats-server || echo /usr/sbin/nats-server) ISOGLOSS_CHDB=$(SCALE_TOOLS)/chdb/bin/python \
		go test ./scale -count=1 -v -timeout 1h

clickhouse: stores ## the questions of the admin API on SQLite, PostgreSQL and ClickHouse over ROWS requests; installs chdb
	scale/tools.sh $(SCALE_TOOLS) chdb
	ISOGLOSS_ROWS=$(or $(ROWS),1000000) ISOGLOSS_CHDB=$(SCALE_TOOLS)/chdb/bin/python go test ./internal/ledger/clickhouse -count=1 -v -timeout 3h
	ISOGLOSS_CHDB=$(SCALE_TOOLS)/chdb/bin/python go test ./internal/api/admin -count=1 -run 'Tenant.*Name' -timeout 1h

clickhouse-large: ## the times of these questions with ROWS requests in ClickHouse, 100 million by default; needs 20 GB of disk and half an hour
	scale/tools.sh $(SCALE_TOOLS) chdb
	ISOGLOSS_LARGE_ROWS=$(or $(ROWS),100000000) ISOGLOSS_COST_ROWS=300000 ISOGLOSS_CHDB=$(SCALE_TOOLS)/chdb/bin/python go test ./internal/ledger/clickhouse -count=1 -v -timeout 3h -run 'TestLarge|TestInsertCost'

ledger-scale: ## every question of the admin API on a ledger of a million rows, in SQLite and PostgreSQL, and the cost of a row as the ledger grows; takes minutes
	ISOGLOSS_LEDGER_ROWS=$(or $(ROWS),1000000) go test -v -timeout 60m -run 'LedgerScale|AppendGrowth' ./internal/ledger/store

ledger-large: ## these questions on ROWS requests that PostgreSQL makes itself, 10 million by default; needs 12 GB of disk and ten minutes or more
	ISOGLOSS_LARGE_LEDGER_ROWS=$(or $(ROWS),10000000) go test -v -count=1 -timeout 2h -run LargeLedger ./internal/ledger/store

bench: build ## CPU, memory and latency compared with others; writes docs/performance.md; PEERS="--peer NAME=URL,PID" adds one
	./bench/setup.sh
	go build -o bin/bench ./bench
	bin/bench --page docs $(PEERS)

streams: build ## STREAMS open streams (15,000) over HTTP (h2/h2) for eight minutes, with keys, SQLite, a reload and a restart; writes docs/performance/streams-*
	go build -o bin/bench ./bench
	bin/bench --streams $(or $(STREAMS),15000) --http $(or $(HTTP),h2/h2) --page docs

flames: build ## where the CPU time of a request and a stream goes, by perf: flame graphs in docs/performance
	go build -o bin/bench ./bench
	bin/bench --flames docs/performance

bench-quick: build ## the ratios only, checked against bench/limits.go
	go build -o bin/bench ./bench
	bin/bench --quick

generate: ## writes the configuration reference from the code
	go test ./internal/config -run TestReference -update

image: ## the container image localhost/isogloss for amd64 and arm64; needs buildah
	VERSION=$(VERSION) ./deploy/image/build.sh localhost/isogloss:$(VERSION) amd64 arm64

release: $(GOBIN)/cosign ## all artefacts of VERSION=v1.2.3 in dist: binaries, packages, image, chart, checksums, signature
	cd deploy && PATH="$$PATH:$(GOBIN)" go run ./release -version $(VERSION) -out $(CURDIR)/dist

$(GOBIN)/cosign:
	go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3

$(GOBIN)/helm:
	go install helm.sh/helm/v4/cmd/helm@v4.3.1

manifests: $(GOBIN)/helm ## writes deploy/kubernetes and the configuration of deploy/compose from the Helm chart
	cd deploy && go test -count=1 -run TestManifests ./test -update

test-deploy: ## the ways to install the gateway, on this machine's platform only
	./deploy/test/setup.sh
	cd deploy && go test -short -count=1 -timeout 30m ./test

test-deploy-all: $(GOBIN)/helm $(GOBIN)/cosign ## test-deploy with Helm, all platforms and a signature; builds Helm and cosign
	./deploy/test/setup.sh
	cd deploy && ISOGLOSS_TEST_HELM=1 ISOGLOSS_TEST_COSIGN=1 ISOGLOSS_TEST_PLATFORMS=linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64 \
		go test -count=1 -timeout 60m -v ./test

coverage: build ## the functions that tests and short harnesses reach, written to bin/coverage; takes half an hour
	./tools/coverage.sh bin/coverage conform chaos-short cluster-short redteam e2e-short

clean: ## removes bin
	rm -rf bin
