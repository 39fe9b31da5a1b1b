# Every target runs from the root of a clone. `make` alone prints this list.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
ALL         := ./... ./observe/... ./gateway/... ./gateway/relay/... ./tool/... ./articles/... ./deploy/...
PACKAGES    := $(ALL)
FUZZTIME    ?= 10s
PLATFORMS   := darwin/arm64 windows/amd64 linux/386 linux/arm64

.PHONY: help deps test race timing suites fuzz mutations lint vuln compat autobahn bench claims prove release release-test publish licences outdated cross

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

deps: ## download modules and install what the tests need from Debian, as root or with SUDO=sudo
	@for dir in $$(go list -m -f '{{.Dir}}'); do \
		echo "go mod download in $$dir"; (cd "$$dir" && GOWORK=off go mod download); \
	done; go list -deps $(ALL) tool >/dev/null
	@: 'the Go that builds releases'; GOTOOLCHAIN=$$(awk '$$1 == "toolchain" { print $$2 }' go.work) go version
	@missing=$$(for pair in prometheus:prometheus promtool:prometheus amtool:prometheus-alertmanager prometheus-alertmanager:prometheus-alertmanager \
			prometheus-node-exporter:prometheus-node-exporter systemd-analyze:systemd kubectl:kubernetes-client chromium:chromium \
			redis-server:redis-server redis-cli:redis-tools redis-benchmark:redis-tools logrotate:logrotate strace:strace nginx:nginx /usr/lib/nginx/modules/ngx_stream_module.so:libnginx-mod-stream haproxy:haproxy wrk:wrk curl:curl python3:python3 /usr/lib/python3/dist-packages/pip:python3-pip \
			/usr/lib/python3/dist-packages/setuptools:python3-setuptools /usr/lib/python3/dist-packages/wheel:python3-wheel node:nodejs \
			pg_createcluster:postgresql mosquitto_pub:mosquitto-clients /usr/lib/python3/dist-packages/paho/mqtt:python3-paho-mqtt /usr/share/nodejs/mqtt:node-mqtt java:default-jre-headless mvn:maven \
			/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf:fonts-droid-fallback; do \
		[ -e "$${pair%:*}" ] || command -v "$${pair%:*}" >/dev/null || echo "$${pair#*:}"; \
	done | sort -u | tr '\n' ' '); \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 -o -n "$(SUDO)" ] && command -v apt-get >/dev/null; then \
		: 'Debian starts what it installs, unless this file says no'; \
		policy=/usr/sbin/policy-rc.d; \
		if [ ! -e $$policy ]; then \
			printf '#!/bin/sh\nexit 101\n' | $(SUDO) tee $$policy >/dev/null; \
			$(SUDO) chmod 755 $$policy; trap "$(SUDO) rm -f $$policy" EXIT; \
		fi; \
		$(SUDO) apt-get -qq update && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -qqy install --no-install-recommends $$missing >/dev/null; \
	else echo "missing: $$missing: install these packages, or run make deps as root on Debian"; fi
	@: 'the Kafka broker for the tests of honed-relay'; \
	if command -v mvn >/dev/null; then \
		mvn -q -B -f gateway/relay/cmd/honed-relay/testdata/pom.xml dependency:build-classpath -Dmdep.outputFile=/dev/null; \
	else echo 'missing: maven, to download the Kafka broker'; fi

test: ## run every test, or those of PACKAGES
	go test $(PACKAGES)

race: ## the same with the race detector
	go test -race -timeout 30m $(PACKAGES)

timing: ## run the tests that compare measured figures, which need the machine to themselves
	@: 'other work may change the figures of an attempt, but hardly of three'; \
	HONE_TEST_TIMING=1 go tool gotestsum --no-color --format standard-verbose --hide-summary skipped \
		--rerun-fails=2 --rerun-fails-run-root-test --packages ./tool/cmd/hone -- -count=1 -run '^(TestTiming|TestTour|TestReadmeLoadsAreValid)$$'

suites: ## simulate 40,000 servers, compare http1 with net/http by Go's own server tests, other projects' parser tests, h2spec and 200,000 streams of drawn requests
	HONE_SIMULATIONS=5000 go test -count=1 -timeout 60m -run '^TestSimulation(OverTLS)?$$' ./engine ./framed ./http1 ./websocket
	HONE_TEST_ALL=1 go test -count=1 ./internal/servetest
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	fetch() { \
		git init -q "$$dir/$$1"; git -C "$$dir/$$1" fetch -q --depth 1 "https://github.com/$$2" "$$3"; \
		git -C "$$dir/$$1" checkout -q FETCH_HEAD; \
	}; \
	fetch llhttp nodejs/llhttp 01e105a30fd06e248bc8ac73c4adb34a63d4114a; \
	fetch desync aws/http-desync-guardian 7dd6f37171f0a8428d259f2631aee5e7b01a1d64; \
	GOWORK=off GOBIN=$$dir go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible; \
	HONE_H2SPEC=$$dir/h2spec HONE_LLHTTP=$$dir/llhttp HONE_DESYNC=$$dir/desync go test -count=1 -v -run '^(TestLLHTTP|TestDesync|TestH2Spec)$$' ./http1
	go test -count=1 -timeout 30m -v ./internal/httpdiff -streams 200000

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@go list -f '{{range .TestGoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$.ImportPath}} {{$$.Dir}}/{{.}}{{"\n"}}{{end}}' $(PACKAGES) | \
	while read -r pkg file; do for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file"); do \
		for again in 1 2 3; do \
			echo "$$name in $$pkg for $(FUZZTIME)"; \
			out=$$(go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$pkg" 2>&1 </dev/null) && rc=0 || rc=$$?; echo "$$out"; \
			: 'a fuzzer that its own time-out interrupts says so as a failure, without an input'; \
			[ $$rc -ne 0 ] && grep -q '^ *context deadline exceeded' <<<"$$out" && ! grep -q 'Failing input' <<<"$$out" || break; \
		done; \
		[ $$rc -eq 0 ] || exit 1; \
	done; done

mutations: ## change N statements (40) at random, and list the changes that no test notices
	go run ./tools/mutate $(if $(SEED),-seed $(SEED)) -n $(or $(N),40) -also ./websocket ./engine/... ./framed ./http1 ./workers

lint: ## gofmt, go vet, staticcheck, actionlint and the house rules
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt -w these files:"; echo "$$bad"; exit 1; fi
	go vet $(ALL) ./bench/... ./compat/... ./tools/...
	go tool staticcheck $(ALL) ./bench/... ./compat/... ./tools/...
	go tool actionlint
	go test ./internal/lint ./bench/table
	@: 'the cache of results does not see files outside of a module, such as the workflows'; \
	go test -count=1 ./tools/workflows

vuln: ## look the dependencies up in Go's vulnerability database
	@out=$$(go tool govulncheck $(ALL) 2>&1) && rc=0 || rc=$$?; echo "$$out"; \
	if [ $$rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$$out"; then \
		echo '*** NOT CHECKED: the vulnerability database cannot be reached from here.'; \
		echo '*** Run make vuln again on a machine with access to it.'; exit 0; \
	fi; exit $$rc

compat: ## run applications and tools that others wrote against http1, the servers of bench, and a crowd that does not read its large replies
	cd compat && go test -count=1 .
	cd bench && go test -count=1 ./cmd/... ./fleet ./generators ./race ./routes ./service ./web
	cd bench && go test -count=1 ./memory -run TestMemoryUnderAttack/100_that_do_not_read

autobahn: ## test websocket with the Autobahn test suite, which needs Python 2.7 with pip, in half an hour, and store the result
	HONE_AUTOBAHN='$(or $(CASES),*)' go test -count=1 -timeout 3h -v -run '^TestAutobahn$$' ./websocket -args -update

prove: ## kill processes, servers and the power under the gateway's log, and gateways under load, and verify every message
	HONE_TEST_ALL=1 go test -count=1 -timeout 60m -v -run '^TestProve' ./gateway/journal -args -full
	HONE_TEST_ALL=1 go test -count=1 -timeout 10m -v -run '^TestProve' ./gateway/cmd/honed
	go build -o honed ./gateway/cmd/honed && go run ./tool/cmd/hone prove --honed ./honed --messages 20000000 --kills 100
	cd gateway && go test -count=1 ./cmd/honed -timeout 30m -v -run TestCluster -cluster 8000000
	cd gateway && go test -count=1 . -timeout 30m -v -run TestHostile -hostile 1000000

claims: ## measure again what five articles claim, in about 15 minutes
	HONE_CLAIMS=1 go test -count=1 -p 1 -timeout 60m -v -run '^TestClaim' ./articles/...

bench: $(if $(WHAT),bench.$(WHAT)) ## measure WHAT, as in make bench WHAT=peers; without it, list what there is
	@$(if $(WHAT),:,awk -F ': ## ' '/^bench\.[a-z]+: ## / { printf "make bench WHAT=%-12s %s\n", substr($$1, 7), $$2 }' Makefile)

bench.peers: ## measure hone beside other servers, routers and load generators, or the rows ROWS, within 2 hours, and store each
	go run ./bench/cmd/peers run $(ROWS)
	go run ./bench/cmd/peers tables

bench.faults: ## attack every server with hone torture, within 90 minutes, and store the result
	go run ./bench/cmd/peers faults -o bench/results/torture.json
	go run ./bench/cmd/peers faults -http2 -o bench/results/torture-http2.json
	go run ./bench/cmd/peers tables

bench.generators: ## install vegeta and k6, which the row generators needs beside hone, and measure it
	GOWORK=off go install github.com/tsenart/vegeta/v12@v12.13.0
	GOWORK=off go install go.k6.io/k6@v1.8.1
	PATH="$$PATH:$$(go env GOPATH)/bin" go run ./bench/cmd/peers run generators
	go run ./bench/cmd/peers tables

bench.memory: ## attack every engine, and compare the memory that it takes with its limits
	cd bench && go test -count=1 ./memory -timeout 40m -v -args -all

bench.streams: ## measure handlers that wait: event feeds, and clients that never read
	cd bench && go test -count=1 ./streams -timeout 90m -v -args -all

bench.gateway: ## measure the gateway: levels, logs, shapes of load and open loops
	cd gateway && go test -run '^$$' -bench 'Gateway|OpenLoop' -benchtime 1000000x -timeout 30m .

bench.instructions: ## count the user instructions of a request, and compare REV (the working tree) with BASE (a4fc546); needs valgrind
	go run ./bench/instructions $(if $(BASE),-base '$(BASE)') $(if $(REV),-rev '$(REV)')

release-test: ## build the modules as they would be published, install the five commands and build every example from them
	HONE_TEST_RELEASE=1 go test -count=1 -timeout 30m ./tools/...

release: ## build the commands of the last commit for five platforms into dist/, with checksums, an SBOM and notes: make release VERSION=v0.1.0
	go run ./tools/release -binaries dist "$${VERSION:?give one, as in make release VERSION=v0.1.0}"
	@echo 'dist/ has the binaries; sha256sum -c SHA256SUMS checks them'

publish: ## make a release of GitHub from dist/ and the tag: make publish VERSION=v0.1.0; needs gh and a token
	gh release create "$${VERSION:?give one, as in make publish VERSION=v0.1.0}" --verify-tag --title "hone $$VERSION" \
		--notes-file dist/NOTES.md $(if $(findstring -,$(VERSION)),--prerelease) dist/*

licences: ## list the licences of all dependencies
	@go run ./tools/licences

outdated: ## list the dependencies that are behind, and why
	go run ./tools/outdated

cross: ## type-check every package and test for the other platforms
	@: 'vet has dependencies compiled; without optimisation that takes a quarter less'; \
	for p in $(PLATFORMS); do \
		echo "go vet for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} go vet -gcflags='all=-N -l' $(ALL); \
	done
