# Every target sets up what it needs in .venv: packages and kernels for the library itself (`make demo`), tools for
# tests and lint (`make test`), torch and solvers to compare with (`make test-all`). Nothing is fetched twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL_SOURCES := CMakeLists.txt $(wildcard src/kernels/*/*)
JOBS := $(shell nproc 2>/dev/null || echo 2)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Packages are not compiled to bytecode when they are installed, but when they are first imported, and then kept.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test suite lint test-all test-rest test-long test-faults test-page test-asan fuzz bench bench-quick bench-first-hour bench-kernels experiments reproduce coverage install clean
.DEFAULT_GOAL := test
# Several test processes share the cores: threads of scikit-learn and torch that wait must not spin.
test suite test-all test-rest test-long test-faults test-page coverage: export OMP_WAIT_POLICY = passive

demo: $(VENV)/.built
	$(BIN)/python examples/demo.py

# Lint; unit, property, estimator, command-line and integration tests. The two run side by side.
# Tools are installed while the kernels are compiled.
test: $(VENV)/.runtime
	$(MAKE) --no-print-directory --jobs=2 $(VENV)/.built $(VENV)/.tools
	$(MAKE) --no-print-directory --jobs=2 lint suite

REST := faults or browser or studies or torch or extended
# A test beyond its limit of time ends its worker. With a new worker, --dist=loadfile runs the test again and again, or
# waits for ever (xdist 3.8). Without one, the run fails with what the other workers have begun.
XDIST := -n $(JOBS) --max-worker-restart=0
suite: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m pytest $(XDIST) --dist=loadfile -m "not ($(REST))"

lint: $(VENV)/.built $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(wildcard src/kernels/*/*) $(shell find tests -name '*.cpp')

# Everything else too: faults, kills, browsers, Dask faults, studies, benchmarks, torch, the whole of each product of cases.
test-all: test
	$(MAKE) --no-print-directory test-rest

test-rest: $(VENV)/.built $(VENV)/.tools $(VENV)/.all
	$(BIN)/python -m pytest $(XDIST) --dist=loadfile -m "$(REST)"

# The report page; fails where no Chromium is found. LEVELPROX_SCREENSHOTS=folder keeps what it looks like.
test-page: $(VENV)/.built $(VENV)/.tools
	LEVELPROX_NEEDS_BROWSER=1 $(BIN)/python -m pytest tests/unit/report/test_page.py tests/unit/report/test_page_browser.py

# The long versions of the randomised tests, and everything else.
test-long: $(VENV)/.built $(VENV)/.tools $(VENV)/.all
	$(BIN)/python -m pytest $(XDIST) --long --timeout=7200

# Fits killed a hundred times each, workers of a cluster twenty times, and every bit of files flipped.
test-faults: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m pytest $(XDIST) --long --timeout=7200 -rP tests/faults tests/unit/driver/test_checkpoint.py tests/unit/driver/test_resume.py

coverage: $(VENV)/.built $(VENV)/.tools $(VENV)/.all
	$(BIN)/python -m pytest $(XDIST) --cov --cov-report=term-missing --cov-fail-under=95

# Comparison with other programs, which are installed in .venv-bench on top of .venv: results/bench. Hours; it resumes.
BENCH := .venv-bench
bench: $(VENV)/.built $(VENV)/.tools $(BENCH)/.built
	$(BENCH)/bin/python -m benchmarks --resume

# The same on small data, under five minutes.
bench-quick: $(VENV)/.built $(VENV)/.tools $(BENCH)/.built
	$(BENCH)/bin/python -m benchmarks --quick --out results/bench-quick

# Default estimators on twelve data sets, beside other programs' defaults: results/first_hour.json.
bench-first-hour: $(VENV)/.built $(VENV)/.tools $(BENCH)/.built
	$(BENCH)/bin/python -m benchmarks.first_hour --resume

# The path file makes everything in .venv visible, levelprox and its kernels included.
$(BENCH)/.built: pyproject.toml | $(VENV)/.built
	$(BIN)/python -m venv $(BENCH)
	$(BENCH)/bin/python -c 'import site, pathlib; pathlib.Path(site.getsitepackages()[0], "levelprox-venv.pth").write_text("import site; site.addsitedir(\"$(abspath $(SITE))\")\n")'
	$(BENCH)/bin/python -c 'import tomllib, pathlib; print(*tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"], sep="\n")' > $(BENCH)/requirements.txt
	$(BENCH)/bin/python -m pip install --quiet --requirement $(BENCH)/requirements.txt
	$(BENCH)/bin/python -m pip install --quiet --no-deps "adelie>=1.1.52"  # it demands numpy < 2, but runs with numpy 2
	touch $@

# Ratios of the kernels and the engine to what they replaced.
bench-kernels: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/stochastic.py
	$(BIN)/python benchmarks/libsvm.py
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.growth

# Experiments that `reproduce` does not run: finite sums, convergence, selection. CSV files and figures in results/. `make experiments QUICK=--quick` is shorter.
EXPERIMENTS := finite_sum convergence selection_quality
experiments: $(EXPERIMENTS:%=experiments-%)

experiments-%: $(VENV)/.built $(VENV)/.experiments
	$(BIN)/python -m experiments.$* $(QUICK)

# The paper's figures and tables, with its competitors: results/reproduce/index.html. Hours; an interrupted run
# resumes. `make reproduce QUICK=--quick` takes minutes, and writes results/reproduce-quick.
reproduce: $(VENV)/.built $(VENV)/.tools $(BENCH)/.built
	$(BENCH)/bin/python -m experiments reproduce all $(QUICK)

# The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in an environment of their own.
ASAN := .venv-asan
SITE = $(shell $(BIN)/python -c "import site; print(site.getsitepackages()[0])")
test-asan: $(ASAN)/.built $(VENV)/.tools $(VENV)/.all
	LD_PRELOAD="$$($(or $(CXX),c++) -print-file-name=libasan.so) $$($(or $(CXX),c++) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONPATH=$(SITE) \
	$(ASAN)/bin/python -m pytest -p no:cacheprovider tests

$(ASAN)/.built: $(VENV)/.built $(KERNEL_SOURCES) $(wildcard src/levelprox/*.py src/levelprox/*/*.py)
	$(PYTHON) -m venv --clear $(ASAN)
	PATH="$(abspath $(BIN)):$$PATH" PYTHONPATH=$(SITE) $(BIN)/pip --python $(ASAN)/bin/python install --quiet --no-deps --force-reinstall \
	  --no-build-isolation --config-settings=cmake.define.LEVELPROX_SANITIZE=ON --config-settings=build-dir=build/asan .
	touch $@

# Readers of files under a million mutated inputs; says which branches of the parser were not reached.
fuzz: $(VENV)/.built $(VENV)/.tools
	$(BIN)/python -m fuzz

install: $(VENV)/.built

# $(call install,groups): the requirements of these groups of pyproject.toml; "runtime" is what the package depends on.
define install
test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
$(BIN)/python -c 'import sys, tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; groups = {**p["optional-dependencies"], "runtime": p["dependencies"]}; print(*sorted({one for name in sys.argv[1:] for one in groups[name]}), sep="\n")' $(1) > $@.txt
$(BIN)/pip install --quiet --no-compile --requirement $@.txt
touch $@
endef

# Each is installed once, and again when its requirements change.
$(VENV)/.runtime: pyproject.toml
	$(call install,runtime build)

$(VENV)/.tools: pyproject.toml | $(VENV)/.runtime
	$(call install,test lint)

$(VENV)/.experiments: pyproject.toml | $(VENV)/.runtime
	$(call install,experiments)

$(VENV)/.all: pyproject.toml | $(VENV)/.tools $(VENV)/.experiments
	$(call install,test-all)

# The package itself, editable: Python files are used as they are, kernels are compiled here.
$(VENV)/.built: $(VENV)/.runtime $(KERNEL_SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --no-deps --no-compile --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) $(ASAN) $(BENCH) build dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
