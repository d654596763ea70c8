#!/bin/sh
# Builds the servers and the module into build/bin and build/lib; what is up to date is not built
# again. Targets (none means: redis-stock redis module empty-module sampler-driver), where NAME is a
# server of servers.txt:
#
#   NAME-stock     build/bin/NAME-server-stock    the server as it is; redis-stock also redis-cli
#                                                 and redis-benchmark
#   NAME           build/bin/NAME-server          with the patch, where there is one
#   module         build/lib/spreds.so            for unpatched servers
#   module-ARCH    build/lib/spreds-ARCH.so       the same for another processor, such as arm64
#   empty-module   build/lib/empty.so             does nothing, for benchmarks
#   sampler-driver build/bin/sampler-driver       runs the core in its tests
#   portable       build/bin/sampler-driver-arm64, which qemu-aarch64-static runs, and
#                  build/lib/spreds-clang.so: another processor, another compiler; and
#                  build/bin/valkey-server-cmake: the patched one, built by CMake; not in `all`
#   all            all of these, but for servers of releases that move (sid, experimental)
#   newest         those servers, each as it is and with its patch
#   TARGET-sanitized
#                  build/bin/NAME-server-stock-sanitized, build/bin/NAME-server-sanitized and
#                  build/lib/spreds-sanitized.so: the same with ASan, which ends the process at the
#                  first error, and UBSan, which tells of each place once; for tests. TARGET is
#                  NAME-stock, NAME or module
#
# The sources are Debian's, unless NAME_SOURCE (REDIS_SOURCE, VALKEY_SOURCE ...) names a folder or a
# tarball: a patch is for the version in servers.txt, and applies to what is near enough. Changes in
# such a folder are noticed when its copy, build/source/NAME, and build/stamp are removed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
bin=$root/build/bin
lib=$root/build/lib
trees=$root/build/tree
jobs=${JOBS:-2}
sanitizers="-fsanitize=address,undefined -fno-omit-frame-pointer"
variant=    # or -sanitized, -clang, or -ARCH
compiler=cc # of the module
zmq=-lzmq   # or the file
. "$here/servers.sh"

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

need_command() {
    command -v "$1" >/dev/null || fail "the program $1 is missing: apt-get install $2"
}

need_zmq() {
    echo '#include <zmq.h>' | cc -E - >/dev/null 2>&1 ||
        fail "the header zmq.h is missing: apt-get install libzmq3-dev"
}

# What an output is made from: when this changes, it is built again.
fingerprint() {
    cat "$@" | sha256sum | cut -d' ' -f1
}

is_current() { # OUTPUT FINGERPRINT
    [ -e "$1" ] && [ "$(cat "$root/build/stamp/$(basename "$1")" 2>/dev/null)" = "$2" ]
}

mark_current() { # OUTPUT FINGERPRINT
    mkdir -p "$root/build/stamp"
    echo "$2" >"$root/build/stamp/$(basename "$1")"
    echo "built $1" >&2
}

# Quiet when it works, the log's end when it does not.
run_make() { # FOLDER ARGUMENTS...
    folder=$1
    shift
    if [ "$variant" ]; then # the sanitizers know libc's allocator, and not jemalloc
        set -- MALLOC=libc OPTIMIZATION=-O1 CFLAGS="$sanitizers" LDFLAGS="$sanitizers" "$@"
    else
        set -- MALLOC=jemalloc all
    fi
    if ! make -C "$folder" -j"$jobs" BUILD_TLS=no USE_SYSTEMD=no "$@" >"$folder/build.log" 2>&1; then
        tail -25 "$folder/build.log" >&2
        fail "make failed in $folder (whole log: build.log there)"
    fi
}

is_sanitized() {
    [ "$variant" = -sanitized ]
}

need_server() { # NAME TARGET
    [ -n "$(server_field "$1" name)" ] || fail "no target '$2': see the head of this file"
}

# In parentheses: their variables are their own.
take_program() ( # NAME WHEEL
    name=$1
    program=$(server_field "$name" package)-server
    output=$bin/$name-server-stock
    wheel=$(grep "^$2==" "$here/program_wheels.txt") || fail "program_wheels.txt has no $2, for $name"
    [ -z "$variant" ] || fail "$name is a program as it is: it cannot be built with sanitizers"
    is_current "$output" "$wheel" && return
    python=$root/.venv/bin/python
    [ -x "$python" ] || python=python3
    "$python" -I -m pip --version >/dev/null 2>&1 || fail "pip is missing: apt-get install python3-pip"
    work=$root/build/source/.$name
    rm -rf "$work"
    mkdir -p "$work" "$bin"
    echo "$wheel" >"$work/wheel.txt"
    # The same file on every machine: a package may have one for each version of Python.
    "$python" -I -m pip download -q --disable-pip-version-check --require-hashes --no-deps \
        --only-binary :all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_17_x86_64 -d "$work" -r "$work/wheel.txt" >&2
    "$python" -I -m zipfile -e "$work"/*.whl "$work/unpacked"
    found=$(find "$work/unpacked" -type f -name "$program")
    [ -f "$found" ] || fail "$2 does not hold one $program"
    install "$found" "$output"
    rm -rf "$work"
    mark_current "$output" "$wheel"
)

build_stock() ( # NAME
    name=$1
    release=$(server_field "$name" release)
    if [ "$release" != "${release#pypi:}" ]; then
        take_program "$name" "${release#pypi:}"
        return
    fi
    program=$(server_field "$name" package)-server
    tree=$trees/$name-stock$variant
    output=$bin/$name-server-stock$variant
    given=$(given_source "$name")
    print="$name from ${given:-Debian}${variant:+, $sanitizers}"
    is_current "$output" "$print" && return
    source=$("$here/fetch_source.sh" "$name")
    rm -rf "$tree"
    mkdir -p "$trees" "$bin"
    cp -a "$source" "$tree"
    echo "building $name$variant, about two minutes ..." >&2
    run_make "$tree" "$program"
    install "$tree/src/$program" "$output"
    if [ "$name$variant" = redis ]; then
        install "$tree/src/redis-cli" "$tree/src/redis-benchmark" "$bin"
    fi
    mark_current "$output" "$print"
)

core=$here/core glue=$here/patch
patch_sources="$core/sampler.[ch] $core/key_hash.h $core/transport.[ch] $core/kept_scheduling.[ch] $glue/spreds.[ch] $glue/value_size.h"

# The patched tree starts as a copy of the built stock tree: same flags, same dependencies.
build_patched() ( # NAME
    name=$1
    package=$(server_field "$name" package)
    patch=$here/patch/$package-$(server_field "$name" version).patch
    tree=$trees/$name$variant
    output=$bin/$name-server$variant
    build_stock "$name"
    print=$(fingerprint "$patch" $patch_sources "$root/build/stamp/$name-server-stock$variant")
    is_current "$output" "$print" && return
    need_zmq
    rm -rf "$tree"
    cp -a "$trees/$name-stock$variant" "$tree"
    patch -d "$tree" -p1 -s <"$patch" ||
        fail "$(basename "$patch") does not apply to the source in $tree"
    cp $patch_sources "$tree/src"
    echo "building the patched $name$variant ..." >&2
    run_make "$tree" "$package-server"
    install "$tree/src/$package-server" "$output"
    mark_current "$output" "$print"
)

# The patch names its files to CMake, too, with which newer servers can be built.
build_by_cmake() ( # NAME
    name=$1
    package=$(server_field "$name" package)
    patch=$here/patch/$package-$(server_field "$name" version).patch
    tree=$trees/$name-cmake
    output=$bin/$name-server-cmake
    print=$(fingerprint "$patch" $patch_sources)
    is_current "$output" "$print" && return
    need_zmq
    need_command cmake cmake
    source=$("$here/fetch_source.sh" "$name")
    rm -rf "$tree"
    mkdir -p "$trees" "$bin"
    cp -a "$source" "$tree"
    patch -d "$tree" -p1 -s <"$patch" ||
        fail "$(basename "$patch") does not apply to the source in $tree"
    cp $patch_sources "$tree/src"
    echo "building the patched $name by CMake, about two minutes ..." >&2
    { cmake -S "$tree" -B "$tree/by-cmake" -DCMAKE_BUILD_TYPE=Release &&
        cmake --build "$tree/by-cmake" -j"$jobs" --target "$package-server"; } >"$tree/build.log" 2>&1 || {
        tail -25 "$tree/build.log" >&2
        fail "cmake failed in $tree (whole log: build.log there)"
    }
    install "$tree/by-cmake/bin/$package-server" "$output"
    mark_current "$output" "$print"
)

build_sampler_driver() ( # OUTPUT COMPILER OPTIONS...
    output=$bin/$1 compiler=$2
    shift 2
    print=$(fingerprint "$core/sampler.c" "$core/sampler.h" "$core/key_hash.h" "$core/sampler_driver.c")
    is_current "$output" "$print" && return
    mkdir -p "$bin"
    "$compiler" -std=gnu11 -O2 -g -Wall -Wextra "$@" \
        -o "$output" "$core/sampler.c" "$core/sampler_driver.c"
    mark_current "$output" "$print"
)

# Against the interface of Redis 7.0, which later servers keep.
build_library() ( # OUTPUT SOURCES HEADERS LIBRARIES
    output=$lib/$1
    print="$(fingerprint $2 $3)${variant:+, $variant}"
    is_current "$output" "$print" && return
    interface=$("$here/fetch_source.sh" redis)/src
    mkdir -p "$lib"
    "$compiler" -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden -I"$interface" -I"$core" \
        $(is_sanitized && echo "$sanitizers") -o "$output" $2 $4
    mark_current "$output" "$print"
)

build_module() {
    need_zmq
    module=$here/module
    sources=$module/module.c headers="$module/module_state.h $module/pending_command.h $core/key_hash.h"
    for part in $core/kept_scheduling $core/sampler $core/transport $module/access_records $module/asked_sizes \
        $module/call_arguments $module/command_filter $module/command_table $module/keys_after_command \
        $module/keyspace_events $module/no_touch_clients $module/refusals $module/sampling_switch \
        $module/selected_db $module/settings $module/untouched_key; do
        sources="$sources $part.c"
        headers="$headers $part.h"
    done
    build_library "spreds$variant.so" "$sources" "$headers" "$zmq -lpthread"
}

build() {
    case $1 in
        *-sanitized)
            variant=-sanitized
            build "${1%-sanitized}"
            variant=
            ;;
        module) build_module ;;
        module-*)
            variant=${1#module}
            compiler=$(dpkg-architecture -A"${variant#-}" -qDEB_TARGET_GNU_TYPE)-gcc
            need_command "$compiler" "gcc-$(echo "${compiler%-gcc}" | tr _ -)"
            zmq=$("$here/fetch_libraries.sh" "${variant#-}")/libzmq.so.5
            build_module
            variant= compiler=cc zmq=-lzmq
            ;;
        portable)
            need_command aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
            # Without sanitizers, which an emulator of a processor cannot run; all inside.
            build_sampler_driver sampler-driver-arm64 aarch64-linux-gnu-gcc -static
            need_command clang clang
            variant=-clang compiler=clang
            build_module
            variant= compiler=cc
            build_by_cmake valkey
            ;;
        empty-module) build_library empty.so "$here/module/empty_module.c" "" "" ;;
        sampler-driver) build_sampler_driver sampler-driver cc $sanitizers -fno-sanitize-recover ;;
        *-stock)
            need_server "${1%-stock}" "$1"
            build_stock "${1%-stock}"
            ;;
        *)
            need_server "$1" "$1"
            has_patch "$1" || fail "$1 has no patch: servers.txt gives it only the module"
            build_patched "$1"
            ;;
    esac
}

need_command make make
need_command cc gcc
need_command patch patch
mkdir -p "$root/build"
# Two calls at once build one after the other; another user's hand is not waited for.
(umask 077 && : >>"$root/build/.lock" && chmod 600 "$root/build/.lock")
exec 9>>"$root/build/.lock"
flock -n 9 || {
    echo "build.sh: somebody else has $root/build/.lock: waiting for an hour at most" >&2
    flock -w 3600 9 || fail "$root/build/.lock is still held: see who has it (fuser), or remove it"
}

[ $# -gt 0 ] || set -- redis-stock redis module empty-module sampler-driver
add_servers() { # CONDITION ON ITS NAME...: to targets
    for name in $(server_names); do
        "$@" "$name" || continue
        targets="$targets $name-stock"
        ! has_patch "$name" || targets="$targets $name"
    done
}

is_settled() {
    ! is_moving "$1"
}

targets=
for target in "$@"; do
    case $target in
        all)
            targets="$targets module empty-module sampler-driver"
            add_servers is_settled
            ;;
        newest) add_servers is_moving ;;
        *) targets="$targets $target" ;;
    esac
done
for target in $targets; do
    build "$target"
done
