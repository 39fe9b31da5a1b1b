# Every target runs from the root of a clone. `make` alone prints this list.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
ALL         := ./... ./tool/...
FUZZTIME    ?= 10s
PLATFORMS   := darwin/arm64 windows/amd64 linux/386 linux/arm64

.PHONY: help deps demo test race fuzz lint vuln bench cross

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

deps: ## download modules and install what the tests need from Debian (as root)
	@for dir in $$(go list -m -f '{{.Dir}}'); do \
		echo "go mod download in $$dir"; (cd "$$dir" && GOWORK=off go mod download); \
	done; go list -deps $(ALL) tool >/dev/null
	@if command -v promtool >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qqy install --no-install-recommends prometheus >/dev/null; \
	else echo 'promtool is missing: install prometheus, or run make deps as root on Debian'; fi

demo: ## race every engine and print a table
	go run ./tool/cmd/hone demo

test: ## run every test
	go test $(ALL)

race: ## run every test with the race detector
	go test -race $(ALL)

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@listed=$$(go test -list '^Fuzz' $(ALL)); \
	awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { while (n) print $$2, name[n--] }' <<<"$$listed" | \
	while read -r pkg name; do \
		echo "$$name in $$pkg for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
	done

lint: ## gofmt, go vet, staticcheck and the house rules
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt -w these files:"; echo "$$bad"; exit 1; fi
	go vet $(ALL)
	go tool staticcheck $(ALL)
	go test ./internal/lint

vuln: ## look the dependencies up in Go's vulnerability database
	@out=$$(go tool govulncheck $(ALL) 2>&1) && rc=0 || rc=$$?; echo "$$out"; \
	if [ $$rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$$out"; then \
		echo '*** NOT CHECKED: the vulnerability database cannot be reached from here.'; \
		echo '*** Run make vuln again on a machine with access to it.'; exit 0; \
	fi; exit $$rc

bench: ## run the engine benchmarks once each
	go test -run '^$$' -bench 'Engines|IdleMemory' -benchtime 1x ./framed

cross: ## type-check every package and test for the other platforms
	@for p in $(PLATFORMS); do \
		echo "go vet for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} go vet $(ALL); \
	done
