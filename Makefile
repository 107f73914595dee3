# thawpool. Two commands are enough: `make demo` and `make test`. As root both also prepare the host.
GO      ?= $(or $(shell command -v go 2>/dev/null),/usr/local/go/bin/go)
BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# Pinned in go.mod by its tool lines, built unmodified.
TOOLS   := github.com/containerd/containerd/v2/cmd/containerd \
           github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
           github.com/containerd/containerd/v2/cmd/ctr \
           github.com/opencontainers/runc \
           github.com/rootless-containers/rootlesskit/v3/cmd/rootlesskit
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# What the build and the host need from Debian: a C compiler and libseccomp for runc, newuidmap and newgidmap.
DEBS    := gcc libc6-dev libseccomp-dev pkg-config uidmap ca-certificates
export CGO_ENABLED := 1

.PHONY: all build tools shim packages setup demo test unit lint fmt docs bench clean help

all: build

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: tools shim ## build thawpool, its shim, and the pinned containerd, runc and rootlesskit into bin/
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/ ./cmd/thawpool

# Static, so that starting one costs no dynamic linking: the init starts once a sandbox, delete once a task's end.
shim: packages
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags 'seccomp netgo osusergo' -ldflags '-s -w -linkmode external -extldflags -static' \
	  -o $(BIN)/ ./cmd/thawpool-init ./cmd/containerd-shim-thawpool-v1
	$(CC) -Os -s -static -o $(BIN)/thawpool-delete cmd/thawpool-delete/main.c

tools: packages
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags seccomp -ldflags '-s -w' -o $(BIN)/ $(TOOLS)

# Installs what is missing when run as root; as an ordinary user names the one command that does.
packages:
	@missing=$$(dpkg-query -W -f='$${db:Status-Status} $${Package}\n' $(DEBS) 2>/dev/null | awk '$$1=="installed"{print $$2}' | sort -u > /tmp/.thawpool-have.$$$$; \
	  for p in $(DEBS); do grep -qx "$$p" /tmp/.thawpool-have.$$$$ || echo $$p; done; rm -f /tmp/.thawpool-have.$$$$); \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
	  else \
	    echo "thawpool: these packages are missing:" $$missing >&2; \
	    echo "thawpool: run once as root:  sudo make setup" >&2; exit 1; \
	  fi; \
	fi

setup: build ## (root) prepare this host and the user behind sudo: packages, account, subordinate ids, cgroups
	$(BIN)/thawpool setup $(if $(SUDO_USER),--user $(SUDO_USER))

demo: build ## build everything, prepare the host when root, and show an agent's calls with their receipts
	$(BIN)/thawpool demo

test: build ## every test there is, against real rootless containerd
	$(GO) vet -tags integration ./...
	CI=$(CI) $(GO) test -race -tags integration -timeout 25m ./...

unit: ## only the tests that need no containerd
	$(GO) test -race ./...

lint: ## golangci-lint, pinned
	$(GO) run $(LINT) run --build-tags integration ./...

fmt:
	gofmt -w actors cmd pool runtime

docs: build ## rewrite the documents that are made from the code
	$(BIN)/thawpool config docs > docs/configuration.md

clean: ## remove what was built
	rm -rf $(BIN) dist
