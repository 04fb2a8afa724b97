#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Creates .cache/wheels, the third-party packages with pinned versions, and from them .cache/python: a virtual environment
# with the Python SDK, the services of examples/services that are written in Python, and their dependencies. It uses the
# network only if the versions have changed.
set -euo pipefail
cd "$(dirname "$0")/.."

PINNED=(grpcio==1.85.1 grpcio-tools==1.85.1 protobuf==7.36.2 setuptools==80.9.0 wheel==0.45.1
	mypy==2.4.1 types-protobuf==7.35.1.20260906)
VENV=.cache/python
# The system's interpreter: services cannot access one in a home directory.
PYTHON=${PYTHON:-/usr/bin/python3}

stamp() { printf '%s\n' "$("$PYTHON" --version)" "${PINNED[@]}"; }
sources() {
	find sdk/python examples -name '*.py' -o -name '*.toml' -o -name '*.yang' -o -name '*.o'
	echo api/polycube/service/v1/service.proto
}

mkdir -p .cache
exec 9>.cache/python.lock
flock 9
if [ "$(cat "$VENV/pinned" 2>/dev/null)" != "$(stamp)" ] || [ ! -d .cache/wheels ]; then
	echo "python: installing ${PINNED[*]}" >&2
	"$PYTHON" -m venv --clear "$VENV"
	rm -rf .cache/wheels
	"$VENV/bin/pip" download -q --disable-pip-version-check -d .cache/wheels "${PINNED[@]}"
	"$VENV/bin/pip" install -q --disable-pip-version-check --no-index -f .cache/wheels "${PINNED[@]}"
	stamp >"$VENV/pinned"
fi
if [ ! -e "$VENV/built" ] || [ -n "$(sources | xargs -r -I{} find {} -newer "$VENV/built")" ]; then
	# Built from a copy, because the build writes into the source directory.
	tmp=$(mktemp -d .cache/python-src.XXXXXX)
	trap 'rm -rf "$tmp"' EXIT
	cp -R sdk/python "$tmp/sdk"
	cp api/polycube/service/v1/service.proto "$tmp/sdk/"
	packages=("./$tmp/sdk")
	for project in examples/services/*/pyproject.toml; do
		[ -e "$project" ] || continue
		name=$(basename "$(dirname "$project")")
		cp -R "$(dirname "$project")" "$tmp/$name"
		packages+=("./$tmp/$name")
	done
	"$VENV/bin/pip" install -q --disable-pip-version-check --no-build-isolation --no-deps \
		--no-index --force-reinstall "${packages[@]}"
	touch "$VENV/built"
fi
