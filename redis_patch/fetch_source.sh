#!/bin/sh
# Brings a server's source to build/source/NAME, unpacked, and prints that folder.
#
#   fetch_source.sh NAME     a server of servers.txt
#
# The source is what NAME_SOURCE (REDIS_SOURCE, VALKEY_SOURCE ...) names, a folder or a tarball, or
# else Debian's source package, from the archive that this machine's apt already uses: through an
# apt configuration of our own, so that the machine's package lists stay as they are.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
. "$here/servers.sh"

fail() {
    echo "fetch_source.sh: $*" >&2
    exit 1
}

name=${1:-}
package=$(server_field "$name" package) version=$(server_field "$name" version)
release=$(server_field "$name" release)
[ -n "$release" ] || fail "servers.txt has no server '$name', or its line has no release"
case $release in pypi:*) fail "$name is a program from a package: there is no source of it" ;; esac
variable=$(source_variable "$name") given=$(given_source "$name")

target=$root/build/source/$name
# .complete holds where the source came from: another source replaces it.
if [ -e "$target/.complete" ] && [ "$(cat "$target/.complete")" = "$given" ]; then
    echo "$target"
    exit 0
fi
work=$root/build/source/.$name
rm -rf "$work"
mkdir -p "$work"

# A folder or a tarball that the user has.
take_given() {
    if [ -d "$given" ]; then
        [ -e "$given/src/server.c" ] || fail "$variable: $given holds no src/server.c"
        cp -a "$given" "$work/tree"
    elif [ -f "$given" ]; then
        mkdir "$work/tree"
        tar -xf "$given" -C "$work/tree" --strip-components=1 ||
            fail "$variable: $given is not a tarball that tar can read"
    else
        fail "$variable: there is no folder or file $given"
    fi
}

# Archives that the machine's apt knows, as 'URI release' lines; none without apt.
known_archives() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | sort -u
}

# The deb-src lines for the release, on the machine's own mirrors.
write_sources() {
    options=
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -e "$keyring" ] && options="[signed-by=$keyring] "
    this_release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    known_archives | while read -r uri suite; do
        case $suite in
            "$this_release") echo "deb-src $options$uri $release main" ;;
            "$this_release-security")
                is_moving "$name" || echo "deb-src $options$uri $release-security main"
                ;;
        esac
    done >"$work/sources.list"
    [ -s "$work/sources.list" ] ||
        fail "apt knows no archive of this Debian release: set $variable to a folder or tarball of $package $version"
}

private_apt() {
    apt-get -q \
        -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@" >&2
}

download() { # URI FILE SHA256
    /usr/lib/apt/apt-helper -o APT::Sandbox::User="$(id -un)" download-file "$1" "$2" "SHA256:$3" >&2
}

# A version of before, checksums and all from earlier_sources.txt; fails where there is none.
take_earlier() { # ARCHIVE
    archive=${1%/}
    grep -v '^#' "$here/earlier_sources.txt" | grep "^$package  *$number[.+~-]" >"$work/earlier" || return 1
    read -r _ full folder checksum <"$work/earlier"
    dsc=${package}_$full.dsc
    download "$archive/$folder/$dsc" "$work/$dsc" "$checksum" || return 1
    sed -n '/^Checksums-Sha256:/,/^[^ C]/ s/^ //p' "$work/$dsc" >"$work/files"
    while read -r checksum _ file; do
        download "$archive/$folder/$file" "$work/$file" "$checksum" || return 1
    done <"$work/files"
    echo "fetch_source.sh: took $package $full, of earlier_sources.txt, in place of a newer one" >&2
}

fail_without_source() {
    now=$(head -1 "$work/versions")
    ! is_moving "$name" || [ -z "$now" ] ||
        fail "Debian $release has moved on to $package $now: set $variable to a folder or tarball of $package $version"
    fail "Debian $release has no source package $package $version: set $variable"
}

take_debian() {
    command -v apt-get >/dev/null ||
        fail "there is no apt-get here: set $variable to a folder or tarball of $package $version"
    command -v dpkg-source >/dev/null ||
        fail "the package dpkg-dev is missing: apt-get install dpkg-dev"
    write_sources
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    private_apt update
    # The newest first; an archive may still list what its pool no longer has.
    apt-cache -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
        showsrc --only-source "$package" | sed -n 's/^Version: //p' | sort -Vru >"$work/versions"
    number=$(echo "$version" | sed 's/\./\\./g')
    for full in $(grep -E "^([0-9]+:)?$number([.+~-]|\$)" "$work/versions"); do
        (cd "$work" && private_apt source --download-only --only-source "$package=$full") && break
        echo "fetch_source.sh: $package $full could not be had" >&2
        rm -f "$work"/*.dsc
    done
    if ! ls "$work"/*.dsc >/dev/null 2>&1; then
        main=$(sed -n "s/^deb-src .*\(http[^ ]*\) $release main\$/\1/p" "$work/sources.list" | head -1)
        take_earlier "$main" || fail_without_source
    fi
    dpkg-source -x "$work"/*.dsc "$work/tree" >&2
    # Its test is true when the variable is undefined, and breaks the link with the bundled jemalloc.
    # What goes on from it is taken back first.
    for jemalloc in $(ls -r "$work"/tree/debian/patches/*[jJ][eE][mM][aA][lL][lL][oO][cC]* 2>/dev/null); do
        patch -d "$work/tree" -p1 -R -s <"$jemalloc" >&2
    done
}

if [ -n "$given" ]; then take_given; else take_debian; fi
[ -e "$work/tree/src/server.c" ] || fail "$variable: $given holds no src/server.c"
rm -rf "$target"
mv "$work/tree" "$target"
rm -rf "$work"
echo "$given" >"$target/.complete"
echo "$target"
