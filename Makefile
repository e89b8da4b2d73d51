# The same lines on a laptop and in CI. `make` alone lists them; each first installs what it misses.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build core install uninstall package package-test reproducible demo check test fuzz netns fleet vm vm-arm64 vm-systemd spark bench lint fmt docs docs-numbers clean

# Profile of cargo: release, or dist, which packages hold (link-time optimization; takes minutes longer).
PROFILE ?= release
WIRERATE := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)/$(PROFILE)/wirerate
export WIRERATE

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

build: ## the program, as target/release/wirerate (PROFILE=dist: as packages have it)
	@tools/install.sh build
	cargo build --profile $(PROFILE) --locked --package wirerate

core: ## the core alone, as target/release/wirerate: no hub, API, pages, searches and Parquet
	@tools/install.sh build
	cargo build --profile $(PROFILE) --locked --package wirerate --no-default-features

# Where to: make install PREFIX=/usr DESTDIR=/tmp/package. The small names are those of mgcap's programs.
PREFIX ?= /usr/local
SMALL_NAMES := mgdump mgcap mgcap_hwtstamp_config tcpreplay trafgen

install: build ## the program and its small names, to PREFIX/bin (/usr/local/bin), manual pages and completions
	install -D --strip --mode=755 $(WIRERATE) $(DESTDIR)$(PREFIX)/bin/wirerate
	@# A program of the same name that is no link stays.
	cd $(DESTDIR)$(PREFIX)/bin && for name in $(SMALL_NAMES); do [ -e $$name ] && [ ! -L $$name ] || ln -sfn wirerate $$name; done
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(WIRERATE) man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	$(WIRERATE) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/wirerate
	for name in $(SMALL_NAMES); do \
		ln -sfn wirerate $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name; \
	done
	$(WIRERATE) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_wirerate
	$(WIRERATE) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/wirerate.fish

uninstall: ## remove the files of `make install` from PREFIX
	@# A small name that is no link to wirerate belongs to another package, and its page with it.
	for name in $(SMALL_NAMES); do \
		[ "$$(readlink $(DESTDIR)$(PREFIX)/bin/$$name)" != wirerate ] || rm -f $(DESTDIR)$(PREFIX)/bin/$$name \
			$(DESTDIR)$(PREFIX)/share/man/man1/$$name.1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name; \
	done
	rm -f $(DESTDIR)$(PREFIX)/bin/wirerate $(DESTDIR)$(PREFIX)/share/bash-completion/completions/wirerate \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_wirerate \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/wirerate.fish \
		$(DESTDIR)$(PREFIX)/share/man/man1/wirerate.1 $(DESTDIR)$(PREFIX)/share/man/man1/wirerate-*.1

package: ## .deb, .rpm, static tarball and container image for x86-64 and arm64, SBOM, checksums, in target/package
	@tools/install.sh package
	tools/package.sh

package-test: ## make the packages twice, check them, and install, use and purge them in clean roots (as root)
	@tools/install.sh package-test
	tools/package-test.sh

reproducible: ## build the dynamic and the static program in two folders each, and compare (takes four builds)
	@tools/install.sh package
	tools/reproducible.sh

demo: core ## two namespaces, ten million frames, a capture, a report (as root)
	$(WIRERATE) demo

# A shell that starts us in the background lets us inherit an ignored Ctrl-C, which is what some tests send.
WITH_SIGNALS := env --default-signal=INT,QUIT,HUP,TERM

# Tests that need neither root nor the built program; others print that they were skipped.
CHECKS := architecture decode docs fuzz golden model oracle ours properties recordings trafgen translated

check: ## formatting, clippy, unit, golden and property tests, without root; 90 s once built
	@tools/install.sh check
	cargo fmt --all --check && cd lab && cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets --locked -- --deny warnings
	cd lab && cargo clippy --quiet --workspace --all-targets --locked -- --deny warnings
	tools/test.sh --lib $(CHECKS:%=--test %)

# Most seconds for each fuzzer; WIRERATE_FUZZ_SEED repeats one round.
test: export WIRERATE_FUZZ_SECONDS ?= 30
test: ## unit, golden, property, fuzz and end-to-end tests (the last as root), and those of `make vm`
	@tools/install.sh test
	tools/test.sh

fuzz: ## the fuzzers with random seeds, for an hour
	@tools/install.sh netns
	tools/fuzz.sh

netns: build ## the end-to-end tests alone (as root)
	@tools/install.sh netns
	$(WITH_SIGNALS) cargo test --package wirerate --test netns --locked

# Its keys, faults and 200 hosts; the messages, states and sums are pure and need no root.
fleet: export WIRERATE_FUZZ_SECONDS ?= 30
fleet: build ## tests of `wirerate fleet` with a real nats-server (as root)
	@tools/install.sh netns
	cargo test --package fleet --package hub --locked
	$(WITH_SIGNALS) cargo test --package wirerate --test netns --locked -- fleet::

# VM holds arguments: make vm VM="--kernel 6.1 --only engines"; VM=--shell starts a shell in a machine.
vm: build ## on Debian's kernels 6.1, 6.12 and the newest, in virtual machines
	@tools/install.sh vm
	cd lab && cargo build --profile $(PROFILE) --locked --package vm
	$(WITH_SIGNALS) $(dir $(WIRERATE))wirerate-vm $(VM)

vm-arm64: ## built for arm64: pure tests, then demo, send, capture and measure in an emulated arm64 machine
	@tools/install.sh vm-arm64
	tools/arm64.sh $(VM)

vm-systemd: ## the services of the Debian package, started by systemd in virtual machines
	@tools/install.sh vm-systemd
	tools/systemd.sh $(VM)

spark: build ## DataFusion, and Spark with a worker killed, answer docs/parquet.md as DuckDB does
	@tools/install.sh spark
	/var/cache/wirerate/python-spark/bin/python tools/spark-test.py $(WIRERATE)

# BENCH holds arguments: make bench BENCH="--size full --only capture". Without, the page of results is made anew.
bench: build ## against trafgen, tcpreplay, tcpdump and others, in five minutes (as root)
	@tools/install.sh bench
	cd lab && cargo build --profile $(PROFILE) --locked --package bench
	$(dir $(WIRERATE))wirerate-bench $(or $(BENCH),--page lab/bench)

lint: ## formatting, clippy, docs, licences and sources, shell scripts
	@tools/install.sh lint
	tools/lint.sh

docs: build ## the documents as one HTML site, in target/book, with its links checked
	@tools/install.sh docs
	tools/docs.sh $$(command -v mdbook || echo /var/cache/wirerate/mdbook/bin/mdbook)

docs-numbers: build ## rates in README, tutorial and cookbook are within 3 x of those here (idle machine, as root)
	@tools/install.sh netns
	WIRERATE_DOCS_NUMBERS=1 $(WITH_SIGNALS) cargo test --package wirerate --test netns --locked -- \
		--test-threads 1 prints_what

fmt: ## let rustfmt and clang-format lay out the code
	cargo fmt --all && cd lab && cargo fmt --all
	clang-format -i $$(git ls-files '*.c' '*.h')

clean: ## remove what was built
	cargo clean
