#!/bin/sh
# Builds build/packages/spreds_*.deb for Debian 12: all of the wheel and what it needs below
# /usr/lib/spreds, the command, the unit, and a first configuration. Nothing is compiled where it is
# installed, and nothing is fetched. Needs what build_wheel.sh needs, and is for the same ARCH.
set -eu
umask 022

root=$(cd "$(dirname "$0")/../../.." && pwd)
install=$root/docs/operate/install
packages=$root/build/packages
uv=$root/.venv/bin/uv
# Debian 12's; some of what is bundled is compiled for just this one.
python_version=3.11 libc=2_36
architecture=${ARCH:-$(dpkg --print-architecture)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

wheel=$("$install/build_wheel.sh")
cpu=$(dpkg-architecture -A"$architecture" -qDEB_TARGET_GNU_CPU)
stage=$work/stage
home=$stage/usr/lib/spreds/python
mkdir -p "$stage/DEBIAN" "$home"

export UV_NO_CONFIG=1
# Every package is the one that was tested, by its hash. Only a build needs setuptools.
for arguments in "--require-hashes -r $install/requirements.txt" "$wheel"; do
    # shellcheck disable=SC2086 # two arguments
    "$uv" pip install -q --no-deps --target "$home" --python-version $python_version \
        --python-platform "$cpu-manylinux_$libc" --only-binary :all: --link-mode copy $arguments
done
rm -rf "$home"/setuptools* "$home"/_distutils_hack "$home"/distutils-precedence.pth "$home"/bin \
    "$home"/pkg_resources "$home"/.lock
"$uv" run -q --no-project --python $python_version python -I -m compileall -q \
    --invalidation-mode unchecked-hash -s "$stage" "$home"

install -D -m 755 /dev/stdin "$stage/usr/bin/spreds" <<'END'
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/usr/lib/spreds/python")
from sidecar.cli import main

sys.exit(main())
END
install -D -m 640 "$install/node.toml" "$stage/etc/spreds/node.toml"
sed 's,/opt/spreds/bin/spreds,/usr/bin/spreds,' "$install/spreds.service" |
    install -D -m 644 /dev/stdin "$stage/usr/lib/systemd/system/spreds.service"
install -D -m 644 "$root/LICENSE" "$stage/usr/share/doc/spreds/copyright"

version=$("$root/.venv/bin/python" -I -c 'import importlib.metadata as m; print(m.version("spreds"))')
cat >"$stage/DEBIAN/control" <<END
Package: spreds
Version: $version
Architecture: $architecture
Maintainer: SPREDS
Section: database
Priority: optional
Depends: python3 (>= 3.11), python3 (<< 3.12), passwd, libstdc++6
Installed-Size: $(du -sk "$stage" | cut -f1)
Description: divides a machine's memory among its Redis servers
 SPREDS sets maxmemory of several Redis or Valkey servers, over and over, so that their clients wait
 as little as the memory allows. Until it is told otherwise it only recommends.
END
echo /etc/spreds/node.toml >"$stage/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$install/deb/$script" "$stage/DEBIAN/$script"
done

package=$packages/spreds_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz -b "$stage" "$package" >/dev/null
echo "$package"
