# Every target runs from the root of a clone. `make` alone prints this list.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
FUZZTIME    ?= 10s
PLATFORMS   := darwin/arm64 windows/amd64 linux/386 linux/arm64

.PHONY: help deps demo test race fuzz lint vuln bench cross

help: ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

deps: ## download every module that the build and the tests need
	@for dir in $$(go list -m -f '{{.Dir}}'); do \
		echo "go mod download in $$dir"; (cd "$$dir" && GOWORK=off go mod download); \
	done; go list -deps ./... tool >/dev/null

demo: ## start the example gateway, talk to it, show what it pushes
	go run ./examples/gateway -demo

test: ## run every test
	go test ./...

race: ## run every test with the race detector
	go test -race ./...

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@listed=$$(go test -list '^Fuzz' ./...); \
	awk '/^Fuzz/ { name[++n] = $$1 } /^ok/ { while (n) print $$2, name[n--] }' <<<"$$listed" | \
	while read -r pkg name; do \
		echo "$$name in $$pkg for $(FUZZTIME)"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
	done

lint: ## gofmt, go vet, staticcheck and the house rules
	@bad=$$(gofmt -l .); if [ -n "$$bad" ]; then echo "gofmt -w these files:"; echo "$$bad"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	go test ./internal/lint

vuln: ## look the dependencies up in Go's vulnerability database
	@out=$$(go tool govulncheck ./... 2>&1) && rc=0 || rc=$$?; echo "$$out"; \
	if [ $$rc -ne 0 ] && grep -q 'fetching vulnerabilities' <<<"$$out"; then \
		echo '*** NOT CHECKED: the vulnerability database cannot be reached from here.'; \
		echo '*** Run make vuln again on a machine with access to it.'; exit 0; \
	fi; exit $$rc

bench: ## run the engine benchmarks once each
	go test -run '^$$' -bench Engines -benchtime 1x ./framed

cross: ## type-check every package and test for the other platforms
	@for p in $(PLATFORMS); do \
		echo "go vet ./... for $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} go vet ./...; \
	done
