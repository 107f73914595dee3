# thawpool. Two commands are enough: `make demo` and `make test`. As root both also prepare the host.
GO      ?= $(or $(shell command -v go 2>/dev/null),/usr/local/go/bin/go)
BIN     := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty --abbrev=12 2>/dev/null || echo dev)
# Pinned in go.mod by its tool lines, built unmodified.
TOOLS   := github.com/containerd/containerd/v2/cmd/containerd \
           github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
           github.com/containerd/containerd/v2/cmd/ctr \
           github.com/rootless-containers/rootlesskit/v3/cmd/rootlesskit
RUNC    := github.com/opencontainers/runc
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
SBOM    := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# What the build and the host need from Debian: a C compiler and libseccomp for runc and the shim, newuidmap, newgidmap.
DEBS    := gcc libc6-dev libseccomp-dev pkg-config uidmap ca-certificates
# The demo and the tests also start servers from PyPI; the tests also those from npm, make a Debian image, use promtool, and
# look at the live page with Chromium, which Ubuntu does not have as a package.
DEMODEBS := python3 python3-venv git
TESTDEBS := $(DEMODEBS) busybox-static mmdebstrap prometheus chromium $(if $(shell command -v npm 2>/dev/null),,nodejs npm)
export CGO_ENABLED := 1
# The version comes from VERSION; what git knows of the checkout would make equal sources give different programs.
export GOFLAGS += -buildvcs=false

.PHONY: all build tools shim packages demo-packages test-packages setup demo suite conformance test unit lint fmt docs bench release release-check test-vm clean help faults soak

all: build

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

build: tools shim ## build thawpool, its shim, and the pinned containerd, runc and rootlesskit into bin/
	$(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(BIN)/ ./cmd/thawpool

# Static, so that starting one costs no dynamic linking: the init starts once a sandbox, delete once a task's end. And so
# that runc runs where libseccomp is not installed.
shim: packages
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags 'seccomp netgo osusergo' -ldflags '-s -w -linkmode external -extldflags -static' \
	  -o $(BIN)/ ./cmd/thawpool-init ./cmd/containerd-shim-thawpool-v1 $(RUNC)
	$(CC) -Os -s -static -o $(BIN)/thawpool-delete cmd/thawpool-delete/main.c

tools: packages
	@mkdir -p $(BIN)
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN)/ $(TOOLS)

# Installs what is missing when run as root; as an ordinary user names the one command that does.
packages: ; @$(call install,$(DEBS))
demo-packages: ; @$(call install,$(DEMODEBS),optional)
test-packages: ; @$(call install,$(TESTDEBS),optional)

# install PACKAGES [optional]: who lacks an optional one, an ordinary user or a distribution, goes on without what needs it.
define install
missing=; for p in $(1); do \
  [ "$$(dpkg-query -W -f='$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || missing="$$missing $$p"; done; \
if [ -z "$$missing" ]; then :; \
elif [ "$$(id -u)" = 0 ]; then \
  apt-get update -q && $(if $(2),missing="$$(for p in $$missing; do apt-cache show -q $$p 2>/dev/null | grep -q . && echo $$p; done; :)" &&) \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
elif [ -n "$(2)" ]; then echo "thawpool: not installed, parts that need it are left out:$$missing" >&2; \
else echo "thawpool: these packages are missing:$$missing" >&2; \
  echo "thawpool: run once as root:  sudo make setup" >&2; exit 1; fi
endef

setup: build demo-packages test-packages ## (root) prepare this host and the user behind sudo: packages, account, subordinate ids, cgroups
	$(BIN)/thawpool setup $(if $(SUDO_USER),--user $(SUDO_USER))

demo: build demo-packages ## build everything, prepare the host when root, and show an agent's calls with their receipts
	$(BIN)/thawpool demo

# containerd's own client tests, which runtime/shim/conformance runs against our shim.
SUITE := github.com/containerd/containerd/v2/integration/client
suite:
	@mkdir -p $(BIN)
	$(GO) test -c -trimpath -ldflags '-s -w' -o $(BIN)/thawpool-conformance $(SUITE)

conformance: build suite test-packages ## only containerd's own tests against our shim
	$(GO) test -race -tags integration -count=1 -v ./runtime/shim/conformance

test: build suite test-packages ## every test there is, against real rootless containerd
	$(GO) vet -tags integration ./...
	CI=$(CI) $(GO) test -race -tags integration -timeout 25m ./...

faults: build ## break every part at every stage; prints a table (docs/reliability.md)
	THAWPOOL_FAULTS=all $(GO) test -tags integration -timeout 60m -v -run 'TestFault' ./cmd/thawpool/endtoend | grep -E '^ *--- |fault \||_test.go|^(ok|FAIL|PASS)'

SOAK    ?= 30m
soak: build ## mixed calls from several servers under random faults for SOAK=30m; every answer is checked
	THAWPOOL_SOAK=$(SOAK) $(GO) test -tags integration -timeout 0 -v -run 'TestSoak$$' ./cmd/thawpool/endtoend

unit: ## only the tests that need no containerd
	$(GO) test -race ./...

FUZZTIME ?= 10m
fuzz: ## every fuzz target for FUZZTIME, one after the other; what they find stays in testdata/fuzz and is run by make test
	@grep -roE '^func Fuzz[A-Za-z]+' --include='*_test.go' actors cmd pool runtime | sed -E 's|/[^/]*:func | |' | \
	while read -r pkg name; do echo "$$pkg $$name"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 200x "./$$pkg" || exit 1; done

lint: ## golangci-lint, pinned
	$(GO) run $(LINT) run --build-tags integration ./...

fmt:
	gofmt -w actors cmd pool runtime

docs: build ## rewrite the documents that are made from the code
	$(BIN)/thawpool config docs > docs/configuration.md
	$(BIN)/thawpool config metrics > docs/metrics.md

release: build ## dist/thawpool-VERSION-linux-ARCH.tar.gz: all that an installed thawpool needs; equal commits give equal bytes
	$(GO) run ./cmd/release -go $(GO) -bin $(BIN) -version $(VERSION) -sbom-tool $(SBOM) -out $(CURDIR)/dist \
	  -epoch $${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}

release-check: ## build the release of the last commit in two new checkouts, one without any cache, and compare the bytes
	@t=$$(mktemp -d) && trap 'chmod -R u+w '$$t'; rm -rf '$$t EXIT && \
	for d in a another/directory; do git clone -q . $$t/$$d && git -C $$t/$$d checkout -q $$(git rev-parse HEAD) || exit; done && \
	$(MAKE) -C $$t/a release && GOCACHE=$$t/cache $(MAKE) -C $$t/another/directory release && \
	cmp $$t/a/dist/*.tar.gz $$t/another/directory/dist/*.tar.gz && cat $$t/a/dist/*.sha256 && echo 'the two are the same'

VM ?= bookworm trixie
test-vm: release ## (root, amd64) install the release on fresh Debian 12 and 13 machines in QEMU and use it there; VM=trixie, VM_SCENARIOS="cron setuid"
	$(GO) build -trimpath -o $(CURDIR)/dist/client ./cmd/thawpool/endtoend/vm/client
	cmd/thawpool/endtoend/vm/test.sh $(CURDIR)/dist/thawpool-$(VERSION)-linux-amd64.tar.gz $(CURDIR)/dist/client $(VM)

clean: ## remove what was built
	rm -rf $(BIN) dist
