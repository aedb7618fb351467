.PHONY: help run test image soak lint format bench drill docs lock clean
SOURCES := $(shell find gateway sparkplug firmware_profiles systemd -name '*.py' -o -name '*.typed' -o -path 'systemd/*.*' -o -path '*/devices/*' -o -path '*/boards/*' -o -path '*/web/*/*.*') pyproject.toml
# -P: the working tree must not shadow what is installed
PYTEST := PYTHONSAFEPATH=1 .venv/bin/pytest
INSIDE := $(addprefix tests/,unit/ conformance/ property/)
# a process for each core, each file in one of them
APART := -n auto --dist loadfile

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

run: .venv/.installed  ## install into .venv and start the broker on 127.0.0.1:1883, data in ./var
	@exec .venv/bin/forebay run --data-dir var

test: .venv/.dev .venv/.installed  ## run every test: the compiled package, then the in-memory parts interpreted
	FOREBAY_EXPECT=$$(cat .venv/.installed) $(PYTEST) $(APART) $(INSIDE)
	FOREBAY_EXPECT=$$(cat .venv/.installed) $(PYTEST) $(APART) $(filter-out $(INSIDE) tests/bench/ tests/image/ tests/__pycache__/,$(wildcard tests/*/))
	FOREBAY_EXPECT=interpreted PYTHONPATH=. $(PYTEST) $(APART) $(INSIDE)

image: $(if $(filter test faults update-test,$(TASK)),.venv/.dev .venv/.installed)  ## build the image of BOARD (x86-64, arm64, rpi); TASK=test, faults, update-test: in QEMU; TASK=twice compares
	@tools/image $(or $(TASK),build) $(or $(BOARD),x86-64)

soak: .venv/.dev .venv/.installed  ## five minutes of uplinks under load while links, brokers and the gateway fail at random
	FOREBAY_CHAOS_S=150 FOREBAY_EXPECT=$$(cat .venv/.installed) $(PYTEST) -s tests/system/test_uplink_chaos.py

lint: .venv/.dev  ## ruff, mypy --strict, import-linter
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: .venv/.dev  ## write the code in the one format
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

bench: .venv/.dev .venv/.installed  ## measure against an installed mosquitto
	PYTHONSAFEPATH=1 .venv/bin/python tests/bench

drill: .venv/.dev .venv/.installed  ## ten hours without a collector, two kills and a dead link, by Sparkplug nodes
	PYTHONSAFEPATH=1 .venv/bin/python tests/drill

docs: .venv/.dev .venv/.installed  ## write docs/settings.md from the settings table, and pictures of the status page
	PYTHONPATH=. .venv/bin/python -m gateway.cli.reference > docs/settings.md
	FOREBAY_PICTURES=docs/screenshots $(PYTEST) tests/browser/test_pictures.py

lock:  ## pin the dependencies anew (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra cert --group build pyproject.toml -o requirements/run.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra cert --no-emit-package pip -c requirements/run.txt pyproject.toml -o requirements/deb.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --extra cert --extra nats --extra kafka --group build --group dev pyproject.toml -o requirements/dev.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --group pyproject.toml:peer-pysparkplug -o requirements/peer-pysparkplug.txt
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --group pyproject.toml:peer-tahu -o requirements/peer-tahu.txt

clean:  ## remove what the other targets made, but not ./var
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache tests/system/node/node_modules

.venv/.dev: requirements/dev.txt tools/setup
	@tools/setup dev

.venv/.installed: $(SOURCES) requirements/run.txt tools/setup
	@tools/setup run
