# SPDX-License-Identifier: GPL-3.0-or-later
# Phalanx. The two commands for a fresh Debian machine:
#   make demo    install what is needed, build, and run one job list on stock
#                Slurm and on Phalanx, on a real cluster of 16 nodes on this host
#   make test    install what is needed, build, and test everything
# Others: build, plugin, slurm-24.11, check, man, install, bench-10k, bench-balance, clean.

# The installed one, which is Debian 12's where none is yet.
SLURM_VERSION ?= $(or $(shell PATH=$$PATH:/usr/sbin slurmctld -V 2> /dev/null | awk '{ print $$2 }'),22.05.8)
SLURM_SOURCE ?=
PREFIX ?= /usr
DESTDIR ?=
TRIPLET := $(shell gcc -print-multiarch 2> /dev/null || echo x86_64-linux-gnu)
OVERLAY := build/slurm-$(SLURM_VERSION)/select_cons_tres.so
CARGO ?= cargo
# The system's Python: the suites need nothing beyond its standard library.
PYTHON ?= /usr/bin/python3
APT := DEBIAN_FRONTEND=noninteractive apt-get -y -q --no-install-recommends
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

PACKAGES_BUILD := build-essential pkg-config dpkg-dev ca-certificates libslurm-dev libmunge-dev libclang-14-dev \
	slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge
PACKAGES_RUN := $(PACKAGES_BUILD) python3 procps
PACKAGES_TEST := $(PACKAGES_RUN) clang-14 libclang-rt-14-dev sqlite3 \
	slurmdbd mariadb-server

export CARGO_TERM_COLOR ?= never

all: build

# ---- what the machine must have

.PHONY: deps-build deps-run deps-test rust
deps-build: ; @tests/install-packages $(PACKAGES_BUILD)
deps-run: ; @tests/install-packages $(PACKAGES_RUN)
deps-test: ; @tests/install-packages $(PACKAGES_TEST)
rust: ; @tests/need-rust 1.95

# ---- building

.PHONY: all build debug plugin man slurm-24.11
build: deps-build rust plugin
	$(CARGO) build --release --bins
debug: deps-build rust plugin
	$(CARGO) build --bins
plugin: deps-build
	$(MAKE) -C plugin all SLURM_VERSION=$(SLURM_VERSION) SLURM_SOURCE=$(SLURM_SOURCE)
# All three for Slurm 24.11.5, as Debian 13 has it, to run in a tree of its packages.
slurm-24.11: debug
	CARGO="$(CARGO)" MAKE="$(MAKE)" tests/cluster/build-other 24.11.5
man: build
	target/release/phalanx generate build/man

# ---- running

.PHONY: demo
demo: deps-run build
	PHALANX_BIN_DIR=$(CURDIR)/target/release PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY)) \
		$(PYTHON) tests/cluster/demo.py

# ---- testing; the cluster suites run the debug build, which has all checks

.PHONY: test check test-unit test-plugin test-cluster test-cluster-24.11 test-24.11
test: deps-test debug check test-unit test-plugin test-cluster test-24.11
	@echo "make test: everything passed"
check: rust
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
test-unit: rust plugin
	$(CARGO) test --workspace
test-plugin: plugin
	$(MAKE) -C plugin check SLURM_VERSION=$(SLURM_VERSION)

CLUSTER_ENV := PHALANX_BIN_DIR=$(CURDIR)/target/debug \
	PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY))
test-cluster: debug
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/test_harness.py
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/placement.py
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/learn.py
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/transparency.py
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/faults.py

# The same on Slurm 24.11: all of it, and the part of it that every change runs.
SUITE_2411 := PHALANX_TEST_SLURM=24.11 $(PYTHON) tests/cluster
SLICE_2411 := backfill reservation_cores het_mixed gres_typed preempt_requeue job_expand job_shrink \
	suspend_resume exclusive exclusive_user nodelist_partial reconfigure restart_controller
FAULTS_2411 := daemon-killed slurmctld-restarted overlay-wrong-version
test-cluster-24.11: slurm-24.11
	$(SUITE_2411)/test_harness.py
	$(SUITE_2411)/placement.py
	$(SUITE_2411)/transparency.py
	$(SUITE_2411)/faults.py
test-24.11: slurm-24.11
	$(MAKE) -C plugin check SLURM_VERSION=24.11.5
	$(SUITE_2411)/test_harness.py OnSlurm.test_the_release_asked_for_runs_and_nothing_is_mounted
	$(SUITE_2411)/placement.py
	$(SUITE_2411)/transparency.py $(SLICE_2411:%=--only %)
	$(SUITE_2411)/faults.py $(FAULTS_2411:%=--only %)

# ---- measuring; nothing here passes or fails

.PHONY: bench-10k bench-balance bench-traces
bench-10k: deps-run build
	PHALANX_BIN_DIR=$(CURDIR)/target/release PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY)) \
		$(PYTHON) tests/cluster/bench_10k.py
bench-balance: rust
	$(CARGO) bench --bench balance
# TRACES: directory with swf/ and gpu_clusters/alibaba-openb-2023/ (see the script)
bench-traces: build
	$(PYTHON) tests/bench/traces.py target/release/phalanx $(TRACES)

# ---- installing; nothing is started and slurm.conf is not touched

.PHONY: install uninstall clean
OVERLAY_DIR := $(PREFIX)/lib/$(TRIPLET)/phalanx/slurm
install: build man
	install -D -m 755 target/release/phalanxd $(DESTDIR)$(PREFIX)/sbin/phalanxd
	install -D -m 755 target/release/phalanx $(DESTDIR)$(PREFIX)/bin/phalanx
	install -D -m 644 $(OVERLAY) $(DESTDIR)$(OVERLAY_DIR)/select_cons_tres.so
	install -D -m 644 config/phalanxd.service $(DESTDIR)/lib/systemd/system/phalanxd.service
	install -D -m 644 config/phalanx.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/phalanx.conf
	[ -e $(DESTDIR)/etc/phalanx/phalanx.toml ] || \
		install -D -m 644 config/phalanx.toml $(DESTDIR)/etc/phalanx/phalanx.toml
	install -d $(DESTDIR)$(PREFIX)/share/man/man1
	install -m 644 build/man/man/man1/* $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 build/man/bash/phalanx* \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/phalanx
	@echo "installed; add to slurm.conf, first in the list, then restart slurmctld:"
	@echo "  PluginDir=$(OVERLAY_DIR):$(PREFIX)/lib/$(TRIPLET)/slurm-wlm"
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/phalanxd $(DESTDIR)$(PREFIX)/bin/phalanx \
		$(DESTDIR)$(OVERLAY_DIR)/select_cons_tres.so \
		$(DESTDIR)/lib/systemd/system/phalanxd.service \
		$(DESTDIR)$(PREFIX)/share/man/man1/phalanx*.1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/phalanx
	@echo "slurmctld keeps the overlay it has loaded until it is restarted;"
	@echo "the empty directory stays, because slurm.conf may still name it"

clean:
	$(CARGO) clean
	rm -rf build
