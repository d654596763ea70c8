#!/bin/sh
# Brings Debian's ZeroMQ for another processor, with all that it needs, to build/source/zmq-ARCH, and
# prints the folder of these libraries. They are kept: remove that folder to have newer ones.
#
#   fetch_libraries.sh ARCH     an architecture of Debian, such as arm64
#
# They are of the archives that this machine's apt already uses, through an apt configuration of our
# own. Nothing is installed: where apt itself knows two architectures, it holds the libraries of both
# at one version, and would upgrade this machine's.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
arch=$1
libraries=lib/$(dpkg-architecture -A"$arch" -qDEB_TARGET_MULTIARCH)
target=$root/build/source/zmq-$arch
work=$root/build/source/.zmq-$arch

private_apt() {
    apt-get -q -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
        -o Dir::State="$work" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@" >&2
}

if [ ! -e "$target" ]; then
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/tree/usr/lib"
    : >"$work/status"
    # Some packages have theirs in /lib.
    ln -s usr/lib "$work/tree/lib"
    private_apt update
    private_apt install -y --download-only --no-install-recommends libzmq5
    for package in "$work"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$work/tree"
    done
    mv "$work/tree" "$target"
    rm -rf "$work"
fi
echo "$target/usr/$libraries"
