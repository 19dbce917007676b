# make demo, make test: each sets up everything by itself the first time, and installs nothing the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# The claims that take seconds, and those whose cells the figures bring. `facthold verify` checks all.
DEMO_CLAIMS := margin-in-image margin-outside-image gradient-step rounding layerwise
FIGURE_CLAIMS := linear-trained-growth mlp-trained-growth fixed-outputs-growth
space := $(subst ,, )
comma := ,
# Figures that docs/findings.md quotes, beside all claims.
QUOTED := ladder robustness transfer task storage edits efficiency zipf induction probes attention-maps three-steps global-bigrams truncation fact-truncation scaling oscillations optimisers embeddings
# Tests that draw what they are given (by Hypothesis).
FUZZED := tests/facts/test_any_file.py tests/cli/test_any_input.py tests/_util/test_tensors.py tests/lab/test_claim.py

.DEFAULT_GOAL := help
.PHONY: help install demo test check docs lm-test fuzz mutants kill findings format bench clean

help:
	@echo "make demo     figures, claims and a report on embedded defaults (minutes)"
	@echo "make test     check and all tests"
	@echo "make check    ruff and mypy"
	@echo "make docs     the site of docs/, in out/site (a minute)"
	@echo "make lm-test  the tests of the real language model, after 'facthold lm fetch' (a minute)"
	@echo "make fuzz     thousands of random files, numbers and configs, of which none may end in a traceback (long)"
	@echo "make mutants  every deliberate fault, and what turns red by it: docs/mutants.md (hours; goes on where it was stopped)"
	@echo "make kill     commands killed at random moments and started again: a table of how they ended (long)"
	@echo "make findings docs/findings.md: computes claims and figures that have changed (with ALL=1 all of them: hours; goes on)"
	@echo "make format   format the code"
	@echo "make bench    training speed beside a plain implementation"
	@echo "make clean    remove the virtual environment"

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "facthold needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs,parquet,facts,elements,lm]'
	@touch $(STAMP)

demo: $(STAMP)
	@mkdir -p out
	$(BIN)/facthold verify $(DEMO_CLAIMS) --store out/demo.sqlite
	$(BIN)/facthold make --recipe train -S 16 -R 16 -d 16 -H 8 -o out/transformer.safetensors
	$(BIN)/facthold facts countries -o out/countries.csv
	$(BIN)/facthold build out/countries.csv -o out/countries.safetensors
	$(BIN)/facthold ask out/countries.safetensors France capital
	$(BIN)/facthold watch countries -o out/watch
	$(BIN)/facthold explore out/countries.safetensors -o out/countries.html
	$(BIN)/facthold reproduce fig1 fig5 fig6 ladder --claims $(subst $(space),$(comma),$(DEMO_CLAIMS) $(FIGURE_CLAIMS)) --model out/countries.safetensors --store out/demo.sqlite -o out
	@echo "open out/report.html in a browser; it links to the model of all countries, out/countries.html"

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP)
	$(BIN)/python docs/website/make.py --run -o out/site

lm-test: $(STAMP)
	$(BIN)/python -m pytest -m real_lm -rs tests/lm/test_real.py

fuzz: $(STAMP)
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n 2 --dist worksteal $(FUZZED)

mutants: $(STAMP)
	$(BIN)/python tests/mutants/run.py --workers 2

kill: $(STAMP)
	$(BIN)/python tests/kill/run.py --workers 2

findings: $(STAMP)
	$(BIN)/python docs/render.py $(if $(ALL),--all)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/capacity_search.py
	$(BIN)/python benchmarks/transformer.py --step

clean:
	rm -rf $(VENV)
