# SPDX-License-Identifier: GPL-2.0-only
# make scenario-access-link [CCA=reno,cubic] [LOAD=60|85|110] [SEEDS=3] [QUICK=1] [JOBS=2] [KERNEL=path|version]
# make test

CCA   ?=
LOAD  ?=
SEEDS ?=
QUICK ?=
JOBS  ?=
KERNEL ?=
FUZZ  ?= 30
RELEASE ?= trixie
ENGINES ?= uml,ns3,ns2
PREFIX ?= /usr/local
IMAGE ?= testbed
BASE ?=
BUILD_OPTIONS ?=
CONTAINERS ?= $(if $(shell command -v podman),podman,docker)

COMMON_OPTIONS = $(if $(CCA),--cca '$(CCA)') $(if $(SEEDS),--seeds '$(SEEDS)') $(if $(JOBS),--jobs '$(JOBS)') \
	$(if $(KERNEL),--kernel '$(KERNEL)')
RUN_OPTIONS = $(COMMON_OPTIONS) $(if $(LOAD),--load '$(LOAD)') $(if $(QUICK),--quick)

.PHONY: help setup programs quic kernel compare studies suite test test-wireless test-suite test-kernels test-bisect test-assess test-mutants test-engines test-cluster test-vagrant test-debian test-debian12 test-debian13 test-container container unit fuzz bench docs site install clean scenario-%

help:
	@echo "make scenario-NAME   run a scenario and make its report: $(basename $(notdir $(wildcard scenarios/*.yaml)))"
	@echo "                     CCA=reno,cubic LOAD=85 SEEDS=5 QUICK=1 JOBS=2 KERNEL=path-or-version"
	@echo "make compare         the access link and long flows in the kernel and in simulators (ENGINES=uml,ns3,ns2), compared"
	@echo "make studies         the published studies in full, unattended (QUICK=1 SEEDS=5 JOBS=2); run it again to resume"
	@echo "make suite           the Common TCP Evaluation Suite in full, unattended (QUICK=1 CCA=mine,cubic SEEDS=5 JOBS=2), and a scorecard"
	@echo "make test            set up, build the guest kernel, run all tests"
	@echo "make test-wireless   runs over the air; builds the guest kernel with radios, without which make test skips them"
	@echo "make test-kernels    the same questions to kernel 6.1 and to the newest that Debian has (TESTBED_KERNELS=...); stock against fast"
	@echo "make test-bisect     a history of a kernel tree is bisected, by metrics, counters, a warning and a packet script (a build for each commit: for the night)"
	@echo "make test-assess     congestion controls with known faults are assessed: each fault is found (22 minutes)"
	@echo "make test-mutants    kernels with one fault each: the packet script that is about it fails (for the night)"
	@echo "make test-suite      the scenarios of the suite in the short version, each with four congestion controls (ten minutes)"
	@echo "make test-engines    the same connections in the kernel, in ns-3 and in ns-2 (minutes)"
	@echo "make test-cluster    64 runs on workers of a Dask cluster that are killed: the same bytes, each run once (minutes)"
	@echo "make test-vagrant    a virtual machine by Vagrant and libvirt, and ./run_all.sh --smoke in it (long without KVM)"
	@echo "make test-debian13   make test from a clone of the last commit in a minimal Debian 13 (also test-debian12), as root"
	@echo "make container       the testbed as an image for podman or docker, IMAGE=testbed (docs/howto/containers.md)"
	@echo "make test-container  builds such an image and runs it with every privilege taken away (a quarter of an hour)"
	@echo "make unit            the tests that need no guest kernel"
	@echo "make fuzz            tests of properties with thirty times the examples (FUZZ=100 for a hundred)"
	@echo "make bench           speed and scale: ratios to real time, CPU per packet"
	@echo "make docs            the documentation as a site with search, in build/site"
	@echo "make setup           install the Debian packages that are missing"
	@echo "make programs        install the other programs of docs/howto/programs.md (nginx, caddy, curl)"
	@echo "make quic            make the programs of the QUIC stacks of docs/howto/quic.md (done by itself when needed)"
	@echo "make kernel          build the guest kernel (done by itself when needed)"
	@echo "make install         copy the testbed to PREFIX=/usr/local (run make setup first): PREFIX/bin/testbed"
	@echo "make clean           remove caches of this checkout (results are kept)"

setup:
	./setup.sh

programs:
	./setup.sh programs

quic:
	./setup.sh run quic
	/usr/bin/python3 -m traffic.quic.programs

kernel: setup
	bin/testbed kernel $(if $(KERNEL),--kernel '$(KERNEL)')

scenario-%:
	./setup.sh run kernel
	bin/testbed run '$*' $(RUN_OPTIONS)

compare:
	./setup.sh run kernel test
	bin/testbed run long-flows --quick --engine '$(ENGINES)' --probe tcp_probe $(COMMON_OPTIONS)
	bin/testbed run access-link --quick --engine '$(ENGINES)' --seeds 5 $(COMMON_OPTIONS)

studies:
	./setup.sh run kernel test
	bin/testbed suite run studies --yes $(if $(QUICK),--quick) $(if $(SEEDS),--seeds '$(SEEDS)') $(if $(JOBS),--jobs '$(JOBS)')

suite:
	./setup.sh run kernel
	bin/testbed suite run iccrg --yes $(if $(QUICK),--quick) $(COMMON_OPTIONS)

# a worker per CPU; tests that share a run of their file stay together
PARALLEL = -n "$$(nproc)" --dist loadgroup

test: kernel
	/usr/bin/python3 -m pytest $(PARALLEL)

test-wireless: kernel
	bin/testbed kernel --kernel-option wireless
	/usr/bin/python3 -m pytest $(PARALLEL) tests/unit/air tests/wireless

test-kernels: kernel
	/usr/bin/python3 -m pytest tests/kernels

test-bisect: kernel
	/usr/bin/python3 -m pytest tests/bisect

test-assess: kernel
	/usr/bin/python3 -m pytest tests/assess

test-mutants: kernel
	/usr/bin/python3 -m pytest tests/mutants

test-suite: kernel
	/usr/bin/python3 -m pytest $(PARALLEL) tests/suite

test-engines: kernel
	/usr/bin/python3 -m pytest tests/engines

test-cluster: kernel
	/usr/bin/python3 -m pytest tests/cluster

test-vagrant:
	./setup.sh run unit test vagrant
	tests/vagrant/private_libvirt.sh /usr/bin/python3 -m pytest tests/vagrant

test-debian12: RELEASE = bookworm
test-debian13: RELEASE = trixie
test-debian12 test-debian13: test-debian

test-debian:
	tests/in_debian.sh '$(RELEASE)'

# BASE: the image of a Debian or Ubuntu
container:
	$(CONTAINERS) build $(BUILD_OPTIONS) --tag '$(IMAGE)' $(if $(BASE),--build-arg BASE='$(BASE)') --build-arg CODE_VERSION="$$(git describe --always --dirty --abbrev=12)" --file Containerfile .

test-container:
	./setup.sh container
	tests/in_container.sh

unit:
	./setup.sh run kernel unit
	/usr/bin/python3 -m pytest $(PARALLEL) tests/unit

fuzz: kernel
	TESTBED_FUZZ=$(FUZZ) /usr/bin/python3 -m pytest -m hypothesis tests/unit tests/fuzz

bench: kernel
	/usr/bin/python3 -m benchmarks

# what runs need; caches and results are the user's
INSTALLED = LICENSE analysis bin ccas docs/labs kernel kernel-modules knobs packages.txt packet-scripts scenarios setup.sh simulation suites testbed topologies traffic

install:
	@test -n '$(PREFIX)' || { echo 'make install: PREFIX is empty; a folder such as /usr/local expected' >&2; exit 2; }
	rm -rf '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new'
	mkdir -p '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new' '$(DESTDIR)$(PREFIX)/bin'
	tar -c --exclude=__pycache__ --exclude=docs/labs/results $(INSTALLED) | tar -x -C '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new'
	git describe --always --dirty --abbrev=12 > '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new/code-version.txt' || rm '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new/code-version.txt'
	rm -rf '$(DESTDIR)$(PREFIX)/lib/tcp-testbed'
	mv '$(DESTDIR)$(PREFIX)/lib/tcp-testbed.new' '$(DESTDIR)$(PREFIX)/lib/tcp-testbed'
	ln -sfn ../lib/tcp-testbed/bin/testbed '$(DESTDIR)$(PREFIX)/bin/testbed'

docs:
	./setup.sh docs
	$(MAKE) site
	@echo "build/site/index.html; with search: python3 -m http.server -d build/site, then http://localhost:8000"

# the pages of the site, at the places where their links lead
site:
	rm -rf build/pages build/site
	mkdir -p build/pages
	cp -R README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff docs build/pages/
	/usr/bin/python3 -m mkdocs build --strict --quiet

clean:
	rm -rf build .pytest_cache .hypothesis .mypy_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
