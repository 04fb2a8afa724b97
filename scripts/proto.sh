#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Generates the Go code of the service protocol. The result is committed, because programs outside this repository
# import it (docs/adr/0025); --check compares instead of writing.
set -euo pipefail
cd "$(dirname "$0")/.."

out=.
if [ "${1:-}" = --check ]; then
	out=$(mktemp -d)
	trap 'rm -rf "$out"' EXIT
fi
module=github.com/polycube/polycube
protoc -I api \
	--plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" \
	--plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" \
	--go_out="$out" --go_opt=module=$module \
	--go-grpc_out="$out" --go-grpc_opt=module=$module \
	api/polycube/service/v1/service.proto
if [ "$out" != . ] && ! diff -r -I '^// .*protoc' "$out/api" api -x '*.proto' >&2; then
	echo "the Go code of the service protocol is not that of service.proto: make proto" >&2
	exit 1
fi
