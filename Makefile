# SPDX-License-Identifier: GPL-3.0-or-later
# Phalanx. The two commands for a fresh Debian machine:
#   make demo    install what is needed, build, and do the same work on stock Slurm
#                and on Phalanx, on real clusters on this host: a table of what is gained
#   make test    install what is needed, build, and test what every change must pass
# Others: test-all (with the long matrix), demo-hdfs (word count over the blocks of a real HDFS,
# beside stock Slurm), build, plugin, slurm-24.11, check, man, deb, install, bench-10k,
# bench-balance, release, vendor, clean.

# That of the installed libslurm-dev, else of slurmctld; looked at when it is needed, as deps-build
# may be what installs it.
INSTALLED = $(or $(shell dpkg-query -W libslurm-dev 2> /dev/null | sed -n 's/.*\t\(.*\)-.*/\1/p'),\
	$(shell PATH=$$PATH:/usr/sbin slurmctld -V 2> /dev/null | awk '{ print $$2 }'))
SLURM_VERSION ?= $(or $(INSTALLED),22.05.8)
SLURM_SOURCE ?=
# A git repository of Slurm, or the source of a release, for judge.
SLURM_TESTSUITE ?=
# The prefix of a site's own Slurm, for slurm-root and test-cluster.
SLURM_ROOT ?=
PREFIX ?= /usr
DESTDIR ?=
TRIPLET = $(shell gcc -print-multiarch 2> /dev/null || echo x86_64-linux-gnu)
OVERLAY = build/slurm-$(SLURM_VERSION)/select_cons_tres.so
CARGO ?= cargo
# The system's Python: the suites need nothing beyond its standard library.
PYTHON ?= /usr/bin/python3

# Nothing of Slurm but its library: what is built may be installed beside any Slurm.
PACKAGES_BUILD := build-essential pkg-config dpkg-dev ca-certificates libslurm-dev libmunge-dev \
	libclang-dev python3
PACKAGES_DEMO := $(PACKAGES_BUILD) procps munge
PACKAGES_RUN := $(PACKAGES_DEMO) slurmctld slurmd slurm-client slurm-wlm-basic-plugins
# A real HDFS: Java, Maven for Hadoop 3, pip for Hadoop 2 (tests/hdfs/minihdfs.py).
PACKAGES_HDFS := openjdk-17-jdk-headless maven python3-pip python3-setuptools python3-wheel util-linux \
	curl krb5-admin-server krb5-kdc krb5-user openssl
PACKAGES_DEB := debhelper dpkg-dev lintian python3
# What only test-all needs of them: rpms and images.
PACKAGES_RPM := rpm rpmlint cpio buildah
PACKAGES_TEST := $(PACKAGES_RUN) clang libclang-rt-dev sqlite3 systemd libseccomp2 \
	slurmdbd mariadb-server python3-venv chromium chromium-driver fonts-dejavu-core \
	python3-prometheus-client shellcheck busybox valgrind debootstrap tesseract-ocr tesseract-ocr-eng python3-pil \
	$(PACKAGES_HDFS) $(PACKAGES_DEB)

export CARGO_TERM_COLOR ?= never
# What the suites and the benchmarks import.
export PYTHONPATH := $(CURDIR)/tests/cluster:$(CURDIR)/tests/hdfs

all: build

# ---- what the machine must have

# What tests and benchmarks need is installed for them alone (tests/own-system).
OWN := tests/own-system
.PHONY: deps-build deps-demo deps-run deps-test deps-hdfs deps-deb deps-rpm deps-static rust crates
deps-build: ; @tests/install-packages $(PACKAGES_BUILD)
deps-run: ; @$(OWN) tests/install-packages $(PACKAGES_RUN)
deps-demo: ; @tests/install-packages $(PACKAGES_DEMO)
deps-test: ; @$(OWN) tests/install-packages $(PACKAGES_TEST)
deps-hdfs: ; @$(OWN) tests/install-packages $(PACKAGES_HDFS)
deps-deb: ; @tests/install-packages $(PACKAGES_DEB)
deps-rpm: ; @$(OWN) tests/install-packages $(PACKAGES_RPM)
# The static phalanx needs the C library musl and Rust's; bindgen finds headers for it by clang.
deps-static: rust
	@tests/install-packages build-essential clang libclang-dev libmunge-dev musl-tools
	-rustup target add $(MUSL)
rust: ; @tests/need-rust 1.95.0
# Downloads beside what installs packages.
crates: rust
	$(CARGO) fetch

# ---- building

.PHONY: all build debug plugin man slurm-24.11 slurm-26.05 slurm-root
build: deps-build rust plugin
	$(CARGO) build --release --workspace --bins
# With one small test, for whose sake cargo gives the libraries the features that tests ask for:
# so the programs are those of tests/run, and nothing is compiled twice.
DEBUG_BUILD ?= --workspace --bins --test init
debug: deps-build rust plugin
	$(CARGO) build $(DEBUG_BUILD)
plugin: deps-build
	$(MAKE) -C plugin all SLURM_VERSION=$(SLURM_VERSION) SLURM_SOURCE=$(SLURM_SOURCE)
# All three for Slurm as Debian 13 has it, and as Debian's next release, to run in trees of their
# packages; and for the one under SLURM_ROOT. For the last two the overlay needs SLURM_SOURCE.
BUILD_OTHER = $(OWN) env CARGO="$(CARGO)" MAKE="$(MAKE)" DEBUG_BUILD="$(DEBUG_BUILD)" \
	SLURM_SOURCE=$(SLURM_SOURCE) tests/cluster/build-other
slurm-24.11 slurm-26.05 slurm-root: deps-test debug-installed
# SLURM_SOURCE is the other's.
.PHONY: debug-installed
debug-installed:
	$(MAKE) debug SLURM_SOURCE=
slurm-24.11:
	$(BUILD_OTHER) 24.11.5
slurm-26.05:
	$(BUILD_OTHER) 26.05.5
slurm-root:
	$(BUILD_OTHER) $(or $(abspath $(SLURM_ROOT)),$(error SLURM_ROOT is not set: the prefix of a Slurm))
man: build
	target/release/phalanx-bench pages build/man

# ---- running

.PHONY: demo demo-programs demo-hdfs
# Options for demo.py, as in: make demo DEMO="--repeat 3 --seed 2"
DEMO ?=
# Its Slurm is the installed one, else a tree of Debian's packages, so that nothing of Slurm but its
# library gets installed; where no command may have a /usr of its own, the packages.
DEMO_TREE = $(shell PATH=$$PATH:/usr/sbin command -v slurmctld > /dev/null || \
	! tests/cluster/slurm-tree can-run || echo build/demo-tree-$(SLURM_VERSION))
demo: rust
	$(MAKE) -j2 $(if $(DEMO_TREE),deps-demo,deps-run) crates
	$(MAKE) -j3 plugin demo-programs $(DEMO_TREE)
	PHALANX_BIN_DIR=$(CURDIR)/target/demo PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY)) \
		$(if $(DEMO_TREE),tests/cluster/slurm-tree run $(DEMO_TREE),$(OWN)) \
		$(PYTHON) tests/cluster/demo.py --page build/demo.html $(DEMO)
build/demo-tree-%:
	tests/cluster/slurm-tree make $@ $*
demo-programs: deps-build
	$(CARGO) build --profile demo --bins

# A word count over the blocks of a real HDFS, beside stock Slurm.
demo-hdfs: deps-run deps-hdfs build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/data_jobs.py --demo

# ---- testing: tests/run has the table of what is built and tested, in which lane

.PHONY: test test-all check deny test-unit test-plugin test-page test-cluster test-hdfs test-24.11 test-26.05 \
	test-cluster-24.11 test-cluster-26.05 test-packages judge pictures
# Options for tests/run, as in: make test RUN=--strict
RUN ?=
test: deps-run rust
	$(OWN) tests/run $(RUN)
test-all: deps-run rust
	$(OWN) tests/run --all $(RUN)
check: rust
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(PYTHON) tests/tidy.py
# The crates that Phalanx is built from, by deny.toml; a part of test-all, as the program takes two
# minutes to build. With a network that reaches the database of advisories: make deny DENY=all
DENY ?= bans licenses sources
CARGO_DENY := build/tools/bin/cargo-deny
deny: rust $(CARGO_DENY)
	$(CARGO_DENY) --log-level error --locked check --hide-inclusion-graph $(DENY)
$(CARGO_DENY):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install -q cargo-deny --version 0.20.2 --locked --debug \
		--no-default-features --root build/tools
# One row or one group of the table with what it needs; tests/run --list shows all.
test-unit: deps-run rust
	$(OWN) tests/run --only unit
test-plugin: deps-run rust
	$(OWN) tests/run --only plugin-check
test-page: deps-run rust
	$(OWN) tests/run --only page
# The pictures of the page in docs, anew.
pictures: deps-build
	PYTHONPATH=tests/cluster $(PYTHON) tests/page/page.py --only PageTest.screenshots-of-the-docs \
		--docs docs/pictures
# With SLURM_ROOT, and SLURM_SOURCE of exactly that Slurm, on a site's own: docs/releases.md.
test-cluster: deps-run rust
	$(if $(SLURM_ROOT),SLURM_ROOT=$(SLURM_ROOT) SLURM_SOURCE=$(SLURM_SOURCE) $(OWN) tests/run --all --only site,\
		$(OWN) tests/run --only cluster)
# SchedMD's own tests, on stock and with the overlay; JUDGE: options of tests/judge/judge.py.
JUDGE ?=
judge: deps-run rust
	$(if $(SLURM_TESTSUITE),,$(error SLURM_TESTSUITE is not set: docs/releases.md))
	SLURM_TESTSUITE=$(SLURM_TESTSUITE) $(OWN) tests/run --all --only judge -- $(JUDGE); status=$$?; \
		tail -qn 1 build/log/judge*.log; exit $$status
test-hdfs: deps-run rust
	$(OWN) tests/run --only hdfs
test-24.11 test-26.05: test-%: deps-run rust
	$(OWN) tests/run --only $*
test-cluster-24.11 test-cluster-26.05: test-cluster-%: deps-run rust
	$(OWN) tests/run --all --only $*
test-packages: deps-run rust
	$(OWN) tests/run --only packages

# Makes requests from the OpenAPI document; a version that is known to pass.
SCHEMATHESIS := build/venv/bin/schemathesis
$(SCHEMATHESIS):
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install -q schemathesis==4.32.5

# phalanx alone, for hosts of any distribution; build/phalanx
.PHONY: static
MUSL := $(shell uname -m)-unknown-linux-musl
static: deps-static
	$(CARGO) build --release --locked -p phalanx-cli --bins --target $(MUSL)
	install -D -s -m 755 target/$(MUSL)/release/phalanx build/phalanx

# ---- packages; lintian must be silent

.PHONY: deb
# For another Slurm than the installed one: make deb SLURM_VERSION=24.11.5
deb: deps-deb build
	CARGO="$(CARGO)" packaging/make-deb $(SLURM_VERSION) $(INSTALLED)

# Debs, rpms, a static phalanx, source, crates, SBOM, checksums and the tag of a release, into
# build/release. Once before: make release RELEASE=--rehearse
.PHONY: release vendor
RELEASE ?=
CYCLONEDX := build/tools/bin/cargo-cyclonedx
release: deps-deb deps-static build
	@tests/install-packages rpm cpio
	-$(MAKE) $(CARGO_DENY) $(CYCLONEDX)
	CARGO="$(CARGO)" packaging/release $(INSTALLED) $(RELEASE)
$(CYCLONEDX):
	CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install -q cargo-cyclonedx --version 0.5.9 --locked --debug \
		--root build/tools
# All crates into vendor/, for a build of this tree without network: docs/install.md
vendor: rust
	mkdir -p .cargo && $(CARGO) vendor --locked > .cargo/config.toml

# ---- measuring; nothing here passes or fails

# What needs no cluster.
BENCH = $(CARGO) run --release -p phalanx-bench --
CLUSTER_ENV = $(OWN) env PHALANX_BIN_DIR=$(CURDIR)/target/debug \
	PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY))
RELEASE_ENV = $(OWN) env PHALANX_BIN_DIR=$(CURDIR)/target/release \
	PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY))
.PHONY: tuning-pictures bench-demo bench-site bench-10k bench-against bench-backfill bench-limits bench-pending bench-balance bench-proof \
	bench-topology bench-traces bench-gpu-logs bench-reality bench-replay bench-data-jobs bench-gangs \
	bench-gang-method bench-share bench-agents bench-order bench-bag bench-bags-cluster \
	campaign-proofs campaign-kills campaign-memcheck campaign-soak campaign-flood campaign-tsan \
	campaign-fuzz campaign-failures campaign-link campaign-mutants campaign-grammar
# Table and figures of the source paper on instances of our own, as numbers and as a picture; with
# the directory of the authors' instances also beside the published numbers.
BAG_DATA ?=
bench-bag: deps-build rust
	$(BENCH) bag-experiments \
		$(if $(BAG_DATA),--data $(BAG_DATA),--svg docs/bag-experiments.svg)
bench-bags-cluster: deps-test debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/bags.py --bench 200
# The tables of README and BENCHMARKS: the demo with three seeds, half an hour; a site of NODES nodes.
NODES ?= 400
bench-demo:
	for seed in 1 2 3; do $(MAKE) demo \
		DEMO="--repeat 3 --seed $$seed --json build/demo-$$seed.json" || exit 1; done
	$(PYTHON) tests/cluster/demo.py --table build/demo-1.json build/demo-2.json build/demo-3.json
bench-site: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/bench_site.py --nodes $(NODES)
bench-10k: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/bench_10k.py
# This checkout and COMMIT in turn: make bench-against COMMIT=2c6d712 AGAINST="--rounds 5"
COMMIT ?= HEAD~
bench-against: deps-run rust
	$(OWN) $(PYTHON) tests/bench/against.py $(COMMIT) $(AGAINST)
bench-backfill: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/proofs.py --bench 10000
# Stock, Phalanx, and a plugin that asks nobody, in turn: make bench-limits LIMITS="--nodes 10000"
bench-limits: deps-run build
	$(MAKE) -C plugin SLURM_VERSION=$(SLURM_VERSION) limit
	$(RELEASE_ENV) $(PYTHON) tests/cluster/limits.py $(LIMITS)
bench-pending: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/pending.py
# Mixed lists, every proof held against Slurm in full: SEEDS lists of 90 s.
SEEDS ?= 40
campaign-proofs: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/proofs_mixed.py --seeds $(SEEDS) --seconds 90
# Damaged inputs to every parser, of the plugin too: RUNS for each, made from SEED, at most
# SECONDS each; 0: no limit.
RUNS ?= 100000000
SEED ?= 1
SECONDS ?= 0
campaign-fuzz: deps-test rust
	$(OWN) $(PYTHON) tests/fuzz/campaign.py --runs $(RUNS) --seed $(SEED) --seconds $(SECONDS)
# Kills of both daemons beside stock; slurmctld under valgrind beside stock; two hours of jobs
# and churn beside stock; another user's inputs and names; the plugin's harness under TSan.
KILLS ?= 1000
MINUTES ?= 120
RATE ?= 20
campaign-kills: deps-test debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/kills.py --kills $(KILLS) --seed $(SEED)
campaign-memcheck: deps-test debug plugin
	$(MAKE) -C plugin sabotage SLURM_VERSION=$(SLURM_VERSION)
	$(CLUSTER_ENV) PHALANX_OVERLAY_DIR=$(CURDIR)/$(dir $(OVERLAY))sabotage \
		$(PYTHON) tests/cluster/memcheck.py --jobs 25 --seed $(SEED) --sabotage
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/memcheck.py --jobs 500 --seed $(SEED)
campaign-soak: deps-test build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/soak.py --minutes $(MINUTES) --rate $(RATE) --seed $(SEED)
campaign-flood: deps-test build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/trust.py --only flood --flood 120
campaign-tsan: deps-test plugin
	$(OWN) $(MAKE) -C plugin check-tsan SLURM_VERSION=$(SLURM_VERSION) T=$(CURDIR)/$(dir $(OVERLAY))tsan
# Every call of the overlay and of phalanxd to the system fails once, in turn.
campaign-failures: deps-test debug
	$(OWN) $(MAKE) -C plugin failures SLURM_VERSION=$(SLURM_VERSION)
	$(CLUSTER_ENV) $(PYTHON) tests/failures/daemon.py --every 1
# Overlay and daemon's link in one thread of virtual time: make campaign-link SEEDS=1000000; the
# history of one seed: make campaign-link SEEDS=1 SEED=4711
campaign-link: deps-run rust
	$(OWN) tests/campaign-link --release --seeds $(SEEDS) --seed $(SEED)
.PHONY: faults
faults:
	@mkdir -p build
	$(PYTHON) tests/faults.py > build/faults.md
# Promises broken on purpose, one at a time: does the test of each fail? MUTANTS: its options.
campaign-mutants: deps-test debug
	$(OWN) $(PYTHON) tests/mutants.py $(MUTANTS)
# Requests of the grammar beside stock: make campaign-grammar REQUESTS=100000 SEED=1
REQUESTS ?= 100000
campaign-grammar: deps-test debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/grammar.py --requests $(REQUESTS) --seed $(SEED) --lanes 2
bench-order: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/order.py --bench 5000
bench-data-jobs: deps-test deps-hdfs debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/data_speeds.py --bench
bench-gangs: deps-test debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/gangs.py --bench 200
bench-gang-method: deps-build rust
	$(BENCH) gang-quality gaps 100
	$(BENCH) gang-quality large
	$(BENCH) gang-plan
	$(MAKE) figure-gang-regret figure-gang-policies
bench-balance: deps-build rust
	$(BENCH) balance
bench-proof: deps-build rust
	$(BENCH) proof
bench-topology: deps-build rust
	$(BENCH) topology
# TRACES: directory with swf/ and gpu_clusters/alibaba-openb-2023/ (see the script)
bench-traces: build
	$(PYTHON) tests/bench/traces.py target/release/phalanx-bench $(TRACES)
# The same directory's gpu_jobs/ and slurm_jobs/, on nodes with GPUs.
bench-gpu-logs: build
	$(PYTHON) tests/bench/gpu_logs.py $(TRACES)
# One list of short jobs on 16 real nodes and simulated, stock and Phalanx.
bench-reality: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/cluster/reality.py --jobs 300
# A stretch of a real log on 64 real slots, stock and Phalanx, and simulated; REPLAY: its options.
bench-replay: deps-run debug
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/replay_log.py $(REPLAY)
# Every figure of the documents anew, one rule each, from the repository alone but for
# share-experiment, which installs what make test does and runs on a real HDFS. Those with times
# (figure 2 of bag-experiments, share-experiment) are of this machine. Then the comparison that
# make test-all makes too: each number within its error bar.
FIGURES := gang-regret gang-policies data-turns bag-experiments balance-example tuning \
	share-experiment
.PHONY: figures $(FIGURES:%=figure-%)
figures: $(FIGURES:%=figure-%)
	$(PYTHON) tests/bench/figures.py --program target/release/phalanx-bench
figure-gang-regret: deps-build rust
	$(BENCH) gang-regret 3000 20 docs/gang-regret.svg
# The gang document's experiment: random, least loaded, greedy, index, GA, ideal.
figure-gang-policies: deps-build rust
	$(BENCH) gang-policies 3000 5 docs/gang-policies.svg
# The data job document's claim: better than round robin and weighted round robin.
figure-data-turns: deps-build rust
	$(BENCH) bisect-turns 5 docs/data-turns.svg
# The balance document's worked example, in its three readings.
figure-balance-example: deps-build rust
	$(BENCH) balance-example docs/balance-example.svg
figure-bag-experiments: bench-bag
figure-tuning: build
	$(PYTHON) tests/bench/tuning_pictures.py target/release/phalanx docs/tuning.svg
figure-share-experiment: bench-share
# The picture of docs/tuning.md, and its table.
tuning-pictures: figure-tuning
bench-share: deps-test deps-hdfs debug plugin
	$(CLUSTER_ENV) $(PYTHON) tests/cluster/inference.py --images 400 --check \
		--svg $(CURDIR)/docs/share-experiment.svg
bench-agents: deps-run build
	$(RELEASE_ENV) $(PYTHON) tests/bench/agents_load.py

# ---- installing; nothing is started and slurm.conf is not touched

.PHONY: install uninstall clean
OVERLAY_DIR = $(PREFIX)/lib/$(TRIPLET)/phalanx/slurm
install: build man
	install -D -m 755 target/release/phalanxd $(DESTDIR)$(PREFIX)/sbin/phalanxd
	install -m 755 target/release/phalanx-gate $(DESTDIR)$(PREFIX)/sbin/phalanx-gate
	install -D -m 755 target/release/phalanx $(DESTDIR)$(PREFIX)/bin/phalanx
	install -m 755 target/release/phalanx-share $(DESTDIR)$(PREFIX)/bin/phalanx-share
	install -D -m 644 $(OVERLAY) $(DESTDIR)$(OVERLAY_DIR)/select_cons_tres.so
	install -D -m 644 config/phalanxd.service $(DESTDIR)/lib/systemd/system/phalanxd.service
	install -m 644 config/phalanx-gate.service $(DESTDIR)/lib/systemd/system/phalanx-gate.service
	install -D -m 644 config/phalanx-agent.service \
		$(DESTDIR)/lib/systemd/system/phalanx-agent.service
	install -d $(DESTDIR)/etc/phalanx/collectors $(DESTDIR)$(PREFIX)/share/phalanx/collectors
	install -m 755 config/collectors/* $(DESTDIR)$(PREFIX)/share/phalanx/collectors/
	for name in monitoring ondemand; do \
		install -d $(DESTDIR)$(PREFIX)/share/phalanx/$$name && install -m 644 \
			config/$$name/* $(DESTDIR)$(PREFIX)/share/phalanx/$$name/ || exit 1; \
	done
	install -d $(DESTDIR)$(PREFIX)/share/phalanx/slurm $(DESTDIR)$(PREFIX)/share/phalanx/examples
	install -m 755 config/slurm/phalanx-* $(DESTDIR)$(PREFIX)/share/phalanx/slurm/
	install -m 644 config/slurm/job_submit.lua $(DESTDIR)$(PREFIX)/share/phalanx/slurm/
	install -m 755 config/examples/* $(DESTDIR)$(PREFIX)/share/phalanx/examples/
	chmod 644 $(DESTDIR)$(PREFIX)/share/phalanx/examples/phalanx.toml
	install -m 644 $(dir $(OVERLAY))spank_phalanx.so $(DESTDIR)$(OVERLAY_DIR)/
	install -D -m 644 config/phalanx.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/phalanx.conf
	[ -e $(DESTDIR)/etc/phalanx/phalanx.toml ] || \
		install -D -m 644 config/phalanx.toml $(DESTDIR)/etc/phalanx/phalanx.toml
	install -d $(DESTDIR)$(PREFIX)/share/man
	cp -r build/man/man/. $(DESTDIR)$(PREFIX)/share/man/
	for name in phalanx phalanx-share; do \
		install -D -m 644 build/man/bash/$$name.bash \
			$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$name && \
		install -D -m 644 build/man/zsh/_$$name \
			$(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_$$name && \
		install -D -m 644 build/man/fish/$$name.fish \
			$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$name.fish || exit 1; \
	done
	@echo "installed; add to slurm.conf, first in the list, then restart slurmctld:"
	@echo "  PluginDir=$(OVERLAY_DIR):$(PREFIX)/lib/$(TRIPLET)/slurm-wlm"
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/phalanxd $(DESTDIR)$(PREFIX)/bin/phalanx \
		$(DESTDIR)$(PREFIX)/sbin/phalanx-gate \
		$(DESTDIR)$(PREFIX)/bin/phalanx-share \
		$(DESTDIR)$(OVERLAY_DIR)/select_cons_tres.so \
		$(DESTDIR)/lib/systemd/system/phalanxd.service \
		$(DESTDIR)/lib/systemd/system/phalanx-gate.service \
		$(DESTDIR)/lib/systemd/system/phalanx-agent.service \
		$(DESTDIR)$(PREFIX)/share/man/man1/phalanx*.1 \
		$(DESTDIR)$(PREFIX)/share/phalanx/collectors/* \
		$(DESTDIR)$(PREFIX)/share/phalanx/monitoring/* \
		$(DESTDIR)$(PREFIX)/share/phalanx/ondemand/* \
		$(DESTDIR)$(PREFIX)/share/phalanx/slurm/* $(DESTDIR)$(PREFIX)/share/phalanx/examples/* \
		$(DESTDIR)$(OVERLAY_DIR)/spank_phalanx.so $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/phalanx.conf \
		$(DESTDIR)$(PREFIX)/share/man/man5/phalanx.toml.5 \
		$(DESTDIR)$(PREFIX)/share/man/man8/phalanxd.8 \
		$(DESTDIR)$(PREFIX)/share/man/man8/phalanx-gate.8 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/phalanx* \
		$(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_phalanx* \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/phalanx*.fish
	@echo "slurmctld keeps the overlay it has loaded until it is restarted;"
	@echo "the empty directory stays, because slurm.conf may still name it"

clean:
	$(CARGO) clean
	rm -rf build
