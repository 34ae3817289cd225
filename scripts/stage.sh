#!/bin/sh
# stage.sh - puts everything that a package holds below DEST, as it is on a machine.
# Usage: stage.sh DEST PYDIR     (PYDIR: where the Python package goes, an absolute path)
# Needs: .venv (make build). Used by make deb and make rpm.
# On failure: the failing command and its output, exit 1.
set -eu

cd "$(dirname "$0")/.."
DEST=$1
PYDIR=$2
LIB=/usr/lib/gangstart
WHEEL=build/wheel
PYTHON=.venv/bin/python

rm -rf "$WHEEL"
"$PYTHON" -m pip wheel -q --no-deps --no-build-isolation -w "$WHEEL" .
mkdir -p "$DEST$PYDIR" "$DEST$LIB" "$DEST/usr/bin"
"$PYTHON" -m zipfile -e "$WHEEL"/gangstart-*.whl "$DEST$PYDIR"
rm -rf "$DEST$PYDIR"/gangstart-*.dist-info
find "$DEST$PYDIR" -type f -exec chmod 644 {} +

# A Python that was built by hand adds the folder of its own libraries.
find "$DEST$PYDIR" \( -name '*.so' -o -name gangstart-probe \) -exec chrpath -d {} + >/dev/null

# The files that nodes need exist once; the Python package links to them.
move() {
    mkdir -p "$(dirname "$DEST$LIB/$2")"
    mv "$1" "$DEST$LIB/$2"
    ln -s "$LIB/$2" "$1"
}
PROBE=$DEST$PYDIR/gangstart/gangstart-probe
chmod 755 "$PROBE"
for file in "$DEST$PYDIR"/gangstart/plugins/spank_gangstart-*.so; do
    line=${file##*-}
    move "$file" "slurm-${line%.so}/spank_gangstart.so"
done
move "$PROBE" gangstart-probe

sed "s|@PYDIR@|$PYDIR|" packaging/gangstart.in >"$DEST/usr/bin/gangstart"
chmod 755 "$DEST/usr/bin/gangstart"
install -m 755 packaging/choose-plugin "$DEST$LIB/choose-plugin"
install -D -m 644 slurm-conf/plugstack.conf.d/gangstart.conf "$DEST/etc/slurm/plugstack.conf.d/zz-gangstart.conf"
sed -i "s|^optional spank_gangstart.so|optional $LIB/spank_gangstart.so|" \
    "$DEST/etc/slurm/plugstack.conf.d/zz-gangstart.conf"
for page in docs/man/*.[158]; do
    install -D -m 644 "$page" "$DEST/usr/share/man/man${page##*.}/$(basename "$page")"
done
mkdir -p "$DEST/usr/share/bash-completion/completions" "$DEST/usr/share/zsh/vendor-completions" \
    "$DEST/usr/share/doc/gangstart/examples"
"$PYTHON" -m gangstart completion bash >"$DEST/usr/share/bash-completion/completions/gangstart"
"$PYTHON" -m gangstart completion zsh >"$DEST/usr/share/zsh/vendor-completions/_gangstart"
for name in epilog.d prolog.d healthcheck set-reason systemd; do
    cp -R "slurm-conf/$name" "$DEST/usr/share/doc/gangstart/examples/"
done
