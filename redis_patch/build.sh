#!/bin/sh
# Builds the servers and the module into build/bin and build/lib; what is up to date is not built
# again. Targets (none means: redis-stock redis module empty-module sampler-driver):
#
#   redis-stock    build/bin/redis-server-stock, redis-cli, redis-benchmark   Redis 7.0.15 as it is
#   redis          build/bin/redis-server                                     with the patch
#   valkey-stock   build/bin/valkey-server-stock                              Valkey 8.1 as it is
#   valkey         build/bin/valkey-server                                    with the patch
#   redis8-stock   build/bin/redis8-server-stock                              Redis 8.0, for the module's tests
#   module         build/lib/spreds.so                                        for unpatched servers
#   empty-module   build/lib/empty.so                                         does nothing, for benchmarks
#   sampler-driver build/bin/sampler-driver                                   runs the core in its tests
#   all            all of these
#
# The sources are Debian's, unless REDIS_SOURCE, VALKEY_SOURCE or REDIS8_SOURCE names a folder or a
# tarball: the patches are for Redis 7.0.15 and Valkey 8.1, and apply to what is near enough. Changes
# in such a folder are noticed when its copy, build/source/NAME, and build/stamp are removed.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
bin=$root/build/bin
lib=$root/build/lib
trees=$root/build/tree
jobs=${JOBS:-2}

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
    if ! make -C "$folder" -j"$jobs" BUILD_TLS=no USE_SYSTEMD=no MALLOC=jemalloc "$@" \
        >"$folder/build.log" 2>&1; then
        tail -25 "$folder/build.log" >&2
        fail "make failed in $folder (whole log: build.log there)"
    fi
}

given_source() { # NAME
    case $1 in
        redis) echo "${REDIS_SOURCE:-Debian}" ;;
        valkey) echo "${VALKEY_SOURCE:-Debian}" ;;
        redis8) echo "${REDIS8_SOURCE:-Debian}" ;;
    esac
}

# In parentheses: their variables are their own.
build_stock() ( # NAME, the server's own binary name
    name=$1 program=$2
    output=$bin/$name-server-stock
    print="$name from $(given_source "$name")"
    is_current "$output" "$print" && return
    source=$("$here/fetch_source.sh" "$name")
    rm -rf "$trees/$name-stock"
    mkdir -p "$trees" "$bin"
    cp -a "$source" "$trees/$name-stock"
    echo "building $name, about two minutes ..." >&2
    run_make "$trees/$name-stock"
    install "$trees/$name-stock/src/$program" "$output"
    if [ "$name" = redis ]; then
        install "$trees/$name-stock/src/redis-cli" "$trees/$name-stock/src/redis-benchmark" "$bin"
    fi
    mark_current "$output" "$print"
)

# The patched tree starts as a copy of the built stock tree: same flags, same dependencies.
build_patched() ( # NAME, the server's own binary name, PATCH
    name=$1 program=$2 patch=$3
    output=$bin/$name-server
    core="$here/sampler.c $here/sampler.h $here/transport.c $here/transport.h"
    glue="$here/spreds.c $here/spreds.h"
    build_stock "$name" "$program"
    print=$(fingerprint "$patch" $core $glue "$root/build/stamp/$name-server-stock")
    is_current "$output" "$print" && return
    need_zmq
    rm -rf "$trees/$name"
    cp -a "$trees/$name-stock" "$trees/$name"
    patch -d "$trees/$name" -p1 -s <"$patch" ||
        fail "$(basename "$patch") does not apply to the source in $trees/$name"
    cp $core $glue "$trees/$name/src"
    echo "building the patched $name ..." >&2
    run_make "$trees/$name"
    install "$trees/$name/src/$program" "$output"
    mark_current "$output" "$print"
)

build_sampler_driver() (
    output=$bin/sampler-driver
    print=$(fingerprint "$here/sampler.c" "$here/sampler.h" "$here/sampler_driver.c")
    is_current "$output" "$print" && return
    mkdir -p "$bin"
    cc -std=gnu11 -O2 -g -Wall -Wextra -fsanitize=address,undefined -fno-sanitize-recover \
        -o "$output" "$here/sampler.c" "$here/sampler_driver.c"
    mark_current "$output" "$print"
)

# Against the interface of Redis 7.0, which later servers keep.
build_library() ( # OUTPUT SOURCES HEADERS LIBRARIES
    output=$lib/$1
    print=$(fingerprint $2 $3)
    is_current "$output" "$print" && return
    interface=$("$here/fetch_source.sh" redis)/src
    mkdir -p "$lib"
    cc -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -fvisibility=hidden -I"$interface" \
        -o "$output" $2 $4
    mark_current "$output" "$print"
)

build_module() {
    need_zmq
    sources= headers="$here/module_state.h $here/pending_command.h"
    for part in command_filter command_table keyspace_events no_touch_clients refusals sampler \
        sampling_switch selected_db settings transport; do
        sources="$sources $here/$part.c"
        headers="$headers $here/$part.h"
    done
    build_library spreds.so "$here/module.c $sources" "$headers" "-lzmq -lpthread"
}

build() {
    case $1 in
        module) build_module ;;
        empty-module) build_library empty.so "$here/empty_module.c" "" "" ;;
        sampler-driver) build_sampler_driver ;;
        redis-stock) build_stock redis redis-server ;;
        valkey-stock) build_stock valkey valkey-server ;;
        redis8-stock) build_stock redis8 redis-server ;;
        redis) build_patched redis redis-server "$here/redis-7.0.15.patch" ;;
        valkey) build_patched valkey valkey-server "$here/valkey-8.1.patch" ;;
        *) fail "no target '$1': see the head of this file" ;;
    esac
}

need_command make make
need_command cc gcc
need_command patch patch
mkdir -p "$root/build"
exec 9>"$root/build/.lock"
flock 9 # two calls at once build one after the other

[ $# -gt 0 ] || set -- redis-stock redis module empty-module sampler-driver
[ "$1" != all ] ||
    set -- redis-stock redis module empty-module sampler-driver valkey-stock valkey redis8-stock
for target in "$@"; do
    build "$target"
done
