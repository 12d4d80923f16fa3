# Everything a user or developer runs. Each target sets up what it needs in .venv.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
  $$python -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$python && break; done)
VENV ?= .venv
NETWORK ?= mobilenet_v2
KERNEL_S ?= 0.6
MINUTES ?= 10
GPU_KIT ?= gpu-kit
GPU_PYTHON ?= 3.12
BIN = $(VENV)/bin

.PHONY: help tune bench bench-self test test-unit test-thorough test-slow test-all mutants check format api-docs soak noise false-alarms farm-nemesis farm-storm farm-soak fuzz gpu-kit clean

help:
	@echo "make tune [NETWORK=mobilenet_v2]  tune a network's int8 layers on this machine (two to four minutes)"
	@echo "make test                         run the quick tests, those of long matrices by representatives"
	@echo "make test-unit                    run the tests that need neither TVM nor processes (a minute)"
	@echo "make test-thorough [UNTIL_S=600]  run what the quick run leaves out of long matrices, in an order drawn by the date"
	@echo "make test-slow [GO_ON=FILE]       run the thorough tests and those of minutes (more than an hour), or what is left of them"
	@echo "make test-all                     run everything: the quick tests, then the slow ones"
	@echo "make mutants                      which of 200 wrong sources the tests find (hours)"
	@echo "make check                        formatting, lint, types and import borders"
	@echo "make format                       format the code"
	@echo "make api-docs                     make pages of the Python API, in build/api"
	@echo "make bench                        compare the layers of six networks with other libraries (a quarter of an hour)"
	@echo "make bench-self                   how long our own paths take, beside the kept baseline of this kind of machine"
	@echo "make soak                         2,000 trials: memory, leftovers and use of the cores"
	@echo "make noise                        what campaigns choose while another process keeps the machine busy"
	@echo "make false-alarms                 right kernels of 45 layers, none of which may be found wrong (ten minutes)"
	@echo "make farm-nemesis                 100,000 random farms in which everything goes wrong (ten minutes)"
	@echo "make farm-storm                   campaigns on boards while agents, links and the campaign are killed (six minutes)"
	@echo "make farm-soak [KERNEL_S=4.4]     64 boards with 20,000 trials through scheduler and store (four minutes; half an hour)"
	@echo "make fuzz [MINUTES=10]            hostile files of every kind, each read or refused in one line"
	@echo "make gpu-kit [GPU_KIT=gpu-kit]    everything for a machine with a GPU and no network, in pieces (long: it compresses)"
	@echo "make clean                        remove the environment and caches"

tune: $(VENV)/installed
	$(BIN)/int8tune tune $(NETWORK)

bench: $(VENV)/installed-peers
	$(BIN)/int8tune bench

test: $(VENV)/installed-test
	$(BIN)/python -m tests.stages quick

test-unit: $(VENV)/installed-test
	$(BIN)/pytest --files unit -m "not slow and not thorough and not alone"

test-thorough: $(VENV)/installed-test
	$(BIN)/python -m tests.stages thorough $(if $(UNTIL_S),--until-s $(UNTIL_S))

test-slow: $(VENV)/installed-test
	$(BIN)/python -m tests.stages slow $(if $(GO_ON),--go-on $(GO_ON))

test-all: $(VENV)/installed-test
	$(BIN)/python -m tests.stages all

mutants: $(VENV)/installed-test
	$(BIN)/python -m tests.mutants

check: $(VENV)/installed-dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed-dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

api-docs: $(VENV)/installed-dev
	$(BIN)/pdoc --docformat google --output-directory build/api int8tune '!int8tune[.]' int8tune.tuner.api.quantizing

bench-self: $(VENV)/installed-test
	$(BIN)/python -m tests.own_speed

soak: $(VENV)/installed-test
	$(BIN)/python -m tests.soak --trials 2000

noise: $(VENV)/installed-test
	$(BIN)/python -m tests.noise

false-alarms: $(VENV)/installed-test
	$(BIN)/python -m tests.false_alarms

farm-nemesis: $(VENV)/installed-test
	$(BIN)/python -m tests.farm_nemesis

farm-storm: $(VENV)/installed-test
	$(BIN)/python -m tests.storm

farm-soak: $(VENV)/installed-test
	$(BIN)/python -m tests.soak --boards 64 --trials 20000 --kernel-s $(KERNEL_S)

fuzz: $(VENV)/installed-test
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

gpu-kit: $(VENV)/installed-test
	$(BIN)/python -m tests.gpu_kit $(GPU_KIT) --python $(GPU_PYTHON)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/pip:
	@test -n "$(PYTHON)" || { echo "error: no Python found that is 3.11 or newer and has venv" >&2; exit 1; }
	@command -v cc gcc g++ clang >/dev/null || { echo "error: no C compiler found; install gcc or clang" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[tune]'
	@touch $@

$(VENV)/installed-peers: pyproject.toml $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[peers]'
	@touch $@

$(VENV)/installed-test: pyproject.toml $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[test,oracle,peers,models,quantize,lab,dask,farm,team,cuda]'
	@touch $@

$(VENV)/installed-dev: pyproject.toml $(VENV)/installed
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,test,oracle,peers,models,lab,dask,farm,team,cuda]'
	@touch $@
