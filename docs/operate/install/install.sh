#!/bin/sh
# Installs SPREDS on Debian 12, from a clone, as root: packages, the module for the servers, the
# sidecar, its user, its service. Starts nothing, and changes no server. Twice does no harm.
#
#   docs/operate/install/install.sh           install
#   docs/operate/install/install.sh remove    remove what it installed; state and configuration stay
set -eu
# Whatever the shell has: others may read what is installed, and not write.
umask 022

root=$(cd "$(dirname "$0")/../../.." && pwd)
home=/opt/spreds
# Debian's own service for Redis runs nothing from /usr/local.
module=/usr/lib/spreds/spreds.so
unit=/etc/systemd/system/spreds.service
# There if it was this script that made the group redis.
made_group=$(dirname $module)/made-group-redis

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

reload_systemd() {
    [ ! -d /run/systemd/system ] || systemctl daemon-reload
}

[ "$(id -u)" -eq 0 ] || fail "needs root: sudo $0"

if [ "${1:-}" = remove ]; then
    [ ! -d /run/systemd/system ] || systemctl disable --now spreds 2>/dev/null || true
    if [ -e "$made_group" ]; then
        # A server that was installed since may have it as its own, and then it stays.
        groupdel redis || echo "the group redis, which this script made, stays" >&2
    fi
    # Only its own: the Debian package has others in that folder.
    rm -rf "$home" "$module" "$made_group" /usr/local/lib/spreds "$unit" /usr/local/bin/spreds
    rmdir "$(dirname "$module")" 2>/dev/null || true
    reload_systemd
    echo "removed. /etc/spreds, /var/lib/spreds and the user spreds are still there; a server that" \
        "has 'loadmodule $module' in its file does not start until that line is removed" >&2
    exit 0
fi
if dpkg-query -W -f '${Status}' spreds 2>/dev/null | grep -q 'ok installed'; then
    fail "the Debian package spreds is installed: apt-get remove spreds, or leave it at that"
fi
[ $# -eq 0 ] || fail "'$1' is not known: install.sh [remove]"

export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q --no-install-recommends \
    build-essential ca-certificates dpkg-dev libzmq3-dev patch python3-dev python3-venv ||
    fail "packages are missing; try: apt-get update"

"$root/redis_patch/build.sh" module
install -D -m 755 "$root/build/lib/spreds.so" "$module"

# Debian's, whatever comes first in root's PATH: one of root's own would be closed to the service.
python=/usr/bin/python3
[ "$(readlink -f "$home/bin/python")" = "$(readlink -f $python)" ] ||
    $python -I -m venv --clear "$home"
# Every package is the one that was tested, by its hash; and ours is built by one of them.
"$home/bin/pip" install -q --disable-pip-version-check --require-hashes \
    -r "$root/docs/operate/install/requirements.txt"
"$home/bin/pip" install -q --disable-pip-version-check --no-deps --no-build-isolation \
    --force-reinstall "$root"
ln -sf "$home/bin/spreds" /usr/local/bin/spreds

if ! getent group redis >/dev/null; then
    groupadd --system redis
    touch "$made_group"
fi
getent passwd spreds >/dev/null ||
    useradd --system --user-group --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin spreds
usermod --append --groups redis spreds

# Its files may name secrets' places: not for everybody.
install -d -m 750 -g spreds /etc/spreds
[ -e /etc/spreds/node.toml ] ||
    install -m 640 -g spreds "$root/docs/operate/install/node.toml" /etc/spreds/node.toml
install -d -m 751 -o spreds -g spreds /var/lib/spreds
install -D -m 644 "$root/docs/operate/install/spreds.service" "$unit"
reload_systemd

runuser -u spreds -- /usr/local/bin/spreds --version >&2 ||
    fail "the user spreds cannot run $home/bin/spreds"

cat >&2 <<END
installed. What is left:
  in each server's file:  loadmodule $module
  in /etc/spreds/node.toml:  the servers; then: spreds check /etc/spreds/node.toml --connect
  systemctl enable --now spreds
END
