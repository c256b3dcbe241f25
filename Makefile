# Every target sets up what it needs: a virtual environment in .venv with the package, its kernels
# and the tools of pyproject.toml. After the first run nothing is fetched again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL_SOURCES := CMakeLists.txt $(wildcard src/levelprox/_kernels/*)
JOBS := $(shell nproc 2>/dev/null || echo 2)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint test-long test-faults test-page test-asan fuzz bench bench-quick bench-kernels experiments reproduce coverage install clean
.DEFAULT_GOAL := test
# Several test processes share the cores: threads that wait must not spin.
test test-long test-faults test-page coverage: export OMP_WAIT_POLICY = passive

demo: $(VENV)/.built
	$(BIN)/python examples/demo.py

test: lint $(VENV)/.built
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The report page; fails where no Chromium is found. LEVELPROX_SCREENSHOTS=folder keeps what it looks like.
test-page: $(VENV)/.built
	LEVELPROX_NEEDS_BROWSER=1 $(BIN)/python -m pytest tests/test_page.py tests/test_page_browser.py

# The long versions of the randomised tests, and everything else.
test-long: $(VENV)/.built
	LEVELPROX_LONG_TESTS=1 $(BIN)/python -m pytest -n $(JOBS)

# Fits killed a hundred times each, workers of a cluster twenty times, and every bit of files flipped.
test-faults: $(VENV)/.built
	LEVELPROX_LONG_TESTS=1 $(BIN)/python -m pytest -n $(JOBS) -rP tests/test_kill.py tests/test_checkpoint.py tests/test_resume.py tests/test_dask_faults.py

coverage: $(VENV)/.built
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term-missing --cov-fail-under=95

# Against other programs, which live in an environment of their own on top of .venv: results/bench. Hours; it resumes.
BENCH := .venv-bench
bench: $(VENV)/.built $(BENCH)/.built
	$(BENCH)/bin/python -m benchmarks --resume

# The same on small data, under five minutes.
bench-quick: $(VENV)/.built $(BENCH)/.built
	$(BENCH)/bin/python -m benchmarks --quick --out results/bench-quick

# The path file makes everything in .venv visible, levelprox and its kernels included.
$(BENCH)/.built: pyproject.toml | $(VENV)/.built
	$(BIN)/python -m venv $(BENCH)
	$(BENCH)/bin/python -c 'import site, pathlib; pathlib.Path(site.getsitepackages()[0], "levelprox-venv.pth").write_text("import site; site.addsitedir(\"$(abspath $(SITE))\")\n")'
	$(BENCH)/bin/python -c 'import tomllib, pathlib; print(*tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]["optional-dependencies"]["bench"], sep="\n")' > $(BENCH)/requirements.txt
	$(BENCH)/bin/python -m pip install --quiet --requirement $(BENCH)/requirements.txt
	touch $@

# Ratios of the kernels and the engine to what they replaced.
bench-kernels: $(VENV)/.built
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/stochastic.py
	$(BIN)/python benchmarks/libsvm.py
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.growth

# What `reproduce` has not: finite sums, convergence, selection. CSV files and figures in results/. `make experiments QUICK=--quick` is shorter.
EXPERIMENTS := finite_sum convergence selection_quality
experiments: $(EXPERIMENTS:%=experiments-%)

experiments-%: $(VENV)/.built
	$(BIN)/python -m experiments.$* $(QUICK)

# The paper's figures and tables, with its competitors: results/reproduce/index.html. Hours; a run that was stopped goes on
# where it was. `make reproduce QUICK=--quick` takes minutes, and writes results/reproduce-quick.
reproduce: $(VENV)/.built $(BENCH)/.built
	$(BENCH)/bin/python -m experiments reproduce all $(QUICK)

# The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, in an environment of their own.
ASAN := .venv-asan
SITE = $(shell $(BIN)/python -c "import site; print(site.getsitepackages()[0])")
test-asan: $(ASAN)/.built
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
fuzz: $(VENV)/.built
	$(BIN)/python -m fuzz

install: $(VENV)/.built

# Tools and dependencies, other programs to compare with left out: fetched once, and again only when pyproject.toml changes.
$(VENV)/.dependencies: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import tomllib, pathlib; p = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]; \
	  print(*p["dependencies"], *sum((v for k, v in p["optional-dependencies"].items() if k != "bench"), []), sep="\n")' > $(VENV)/requirements.txt
	$(BIN)/pip install --quiet --requirement $(VENV)/requirements.txt
	touch $@

# The package itself, editable: Python files are used as they are, kernels are compiled here.
$(VENV)/.built: $(VENV)/.dependencies $(KERNEL_SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

clean:
	rm -rf $(VENV) $(ASAN) $(BENCH) build dist .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
