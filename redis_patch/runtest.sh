#!/bin/sh
# Runs the server's own tests on the patched server, with every access sampled and a sidecar's
# receiver listening, and judges what fails:
#
#   runtest.sh [NAME] [--quick] [--off] [--clients N] [UNIT...]
#
#   NAME       a server of servers.txt that has a patch (redis)
#   --quick    only the units that cover the files that the patch touches, about half a minute;
#              without Valkey's unit/maxmemory, which alone takes longer, mostly waiting, and without
#              tests that take long and touch nothing of the patch: a million commands into
#              replicas' buffers, a second's busy loop, Lua's garbage, pipelines and payloads of
#              many megabytes, hash tables that resize
#   --off      with sampling off
#   UNIT       only these, for example unit/expire
#   --clients  how many test files run at a time (2)
#
# A unit with a failure runs again, on the stock server and on the patched one. What fails on the
# patched server both times and passes on the stock server is the patch's fault, and so is a batch
# that the receiver cannot decode: exit code 1. The rest is listed, and forgiven. As root the tests
# run as the user nobody, for some of them need files that they may not read. Needs tclsh.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
. "$here/servers.sh"
quick_units="unit/scripting unit/expire unit/introspection unit/other unit/multi
    unit/type/string unit/keyspace unit/info unit/lazyfree"

fail() {
    echo "runtest.sh: $*" >&2
    exit 2
}

server=redis units= quick= skipped= sampling=on clients=2
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=yes ;;
        unit/* | integration/*) units="$units $1" ;;
        --off) sampling=off ;;
        --clients) clients=${2:?} && shift ;;
        -*) fail "there is no option '$1': see the head of this file" ;;
        *) server=$1 ;;
    esac
    shift
done
has_patch "$server" || fail "servers.txt has no server '$server' with a patch"
package=$(server_field "$server" package)
if [ -n "$quick" ]; then
    units="$units $quick_units"
    [ "$package" = valkey ] || units="unit/maxmemory $units"
    skipped="--skiptest /Measures.elapsed.time|Verify.Lua.performs|PIPELINING.stresser"
    skipped="$skipped|Very.big.payload|Redis.can.(trigger|rewind)"
fi
line=$(for name in $(server_names); do ! has_patch "$name" || echo "$name"; done |
    grep -nx "$server" | cut -d: -f1)
ports=$((17111 + 4000 * line)) # apart, so that all servers' tests can run at once
command -v tclsh >/dev/null || fail "the program tclsh is missing: apt-get install tcl"
[ -x "$root/.venv/bin/python" ] || fail "there is no .venv: run 'make setup' first"
"$here/build.sh" "$server"

# --- two copies of what the tests need, where an ordinary user may write ---------------------------

work=$(mktemp -d /tmp/spreds-runtest-XXXXXX)
listener=
clean_up() {
    [ -z "$listener" ] || kill "$listener" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
for tree in "$server" "$server-stock"; do
    mkdir -p "$work/$tree/src"
    from=$root/build/tree/$tree
    find "$from" -maxdepth 1 -type f -exec cp -a {} "$work/$tree" \;
    cp -a "$from/tests" "$work/$tree"
    [ -z "$quick" ] || sed -i '/^test_slave_buffers /d' "$work/$tree/tests/unit/maxmemory.tcl"
    find "$from/src" -maxdepth 1 -name "$package-*" -executable -exec cp -a {} "$work/$tree/src" \;
done
as_user=
if [ "$(id -u)" -eq 0 ]; then
    # The folder itself stays ours: in it is the receiver's socket.
    chown -R nobody: "$work/$server" "$work/$server-stock"
    chmod 755 "$work"
    as_user="setpriv --reuid=nobody --regid=$(id -g nobody) --clear-groups"
fi

# --- the receiver ----------------------------------------------------------------------------------

cat >"$work/listen.py" <<'PYTHON'
import os, signal, sys
from sidecar.base.metrics import Metrics
from sidecar.samples.endpoint import bind_endpoint

socket, report = sys.argv[1:]
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
batches = records = 0
with bind_endpoint(f"ipc://{socket}", Metrics(), servers=64) as receiver:
    os.chmod(socket, 0o777)
    try:
        while True:
            for batch in receiver.receive(1.0):
                batches, records = batches + 1, records + len(batch.records)
    finally:
        with open(report, "w") as file:
            malformed = receiver.metrics.value("batches_malformed")
            print(batches, records, malformed, receiver.metrics.snapshot(), file=file)
PYTHON
sample=
if [ "$sampling" = on ]; then
    (cd "$root" && exec .venv/bin/python "$work/listen.py" "$work/samples" "$work/received") &
    listener=$!
    while [ ! -S "$work/samples" ]; do
        kill -0 "$listener" 2>/dev/null || fail "the receiver did not start"
        sleep 0.1
    done
    sample="--config spreds-endpoint ipc://$work/samples --config spreds-threshold 16777216"
fi

# --- the runs --------------------------------------------------------------------------------------

run_suite() { # TREE LOG UNITS [MORE ARGUMENTS]: the failed tests on stdout, sorted
    (
        tree=$1 log=$2
        chosen=$(for unit in $3; do
            [ ! -e "$work/$tree/tests/$unit.tcl" ] || printf -- '--single %s ' "$unit"
        done)
        shift 3
        cd "$work/$tree"
        # A session of its own: whoever breaks into its servers must not type at our terminal.
        TERM=dumb HOME=$work setsid $as_user ./runtest --durable --dont-clean --clients "$clients" \
            --baseport "$ports" --portcount 4000 $chosen $skipped "$@" >"$log" 2>&1 </dev/null &
        suite=$!
        trap 'kill -TERM -- "-$suite" 2>/dev/null; exit 130' INT TERM
        wait "$suite" || true
    )
    # Without either of these lines the run ended before its end.
    grep -Eq 'All tests passed|The following tests failed' "$2" || {
        tail -40 "$2" >&2
        echo "runtest.sh: the run stopped before its end" >&2
        exit 1
    }
    sed -n 's/^\*\*\* \[\(err\|TIMEOUT\)\]: //p' "$2" | sort -u
}

list() { # FILE, in words
    echo "$1" >&2
    sed 's/^/    /' "$2" >&2
}

run_suite "$server" "$work/patched.log" "$units" $sample >"$work/failed"
passed=$(grep -c '^\[ok\]' "$work/patched.log")
again=$(sed -n 's/.* in tests\/\(.*\)\.tcl.*/\1/p' "$work/failed" | sort -u)
: >"$work/broken"
if [ -s "$work/failed" ]; then
    list "failed on the patched $server:" "$work/failed"
    [ -n "$again" ] || again=$units
    run_suite "$server-stock" "$work/stock.log" "$again" >"$work/failed-stock"
    run_suite "$server" "$work/again.log" "$again" $sample >"$work/failed-again"
    list "of these units' tests, failed on the stock $server:" "$work/failed-stock"
    list "and on the patched $server again:" "$work/failed-again"
    comm -12 "$work/failed" "$work/failed-again" | comm -23 - "$work/failed-stock" >"$work/broken"
fi

said="sampling off"
if [ "$sampling" = on ]; then
    kill "$listener"
    wait "$listener" || true
    listener=
    read -r batches records malformed reasons <"$work/received"
    said="$records samples received in $batches batches"
    if [ "$malformed" -ne 0 ]; then
        echo "runtest.sh: $malformed batches could not be decoded: $reasons" >&2
        exit 1
    fi
    [ "$records" -gt 0 ] || fail "no sample was received"
fi
if [ -s "$work/broken" ]; then
    list "BROKEN by the patch:" "$work/broken"
    exit 1
fi
echo "$server: the patch breaks no test ($passed passed, $(wc -l <"$work/failed") failed that also" \
    "fail on the stock server or passed when run again; $said)"
