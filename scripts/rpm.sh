#!/bin/sh
# rpm.sh - builds gangstart-*.rpm and gangstart-spank-*.rpm into dist/, and checks them.
# Usage: rpm.sh     (make rpm installs what it needs)
# On failure: the failing command and its output, or rpmlint's errors, exit 1.
set -eu

cd "$(dirname "$0")/.."
BUILD=$PWD/build/rpm
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)

rm -rf "$BUILD"
mkdir -p "$BUILD" dist
rm -f dist/*.rpm
scripts/stage.sh "$BUILD/stage" /usr/lib/gangstart/python
cp NEWS LICENSE README.md "$BUILD/"
rpmbuild -bb --quiet --define "_topdir $BUILD" --define "our_version $VERSION" \
    --define "stage $BUILD/stage" --define "docs $BUILD" packaging/gangstart.spec >"$BUILD/log" 2>&1 || {
    tail -n 40 "$BUILD/log" >&2
    exit 1
}
cp "$BUILD"/RPMS/*/*.rpm dist/
if command -v rpmlint >/dev/null; then
    rpmlint -c packaging/rpmlint.toml dist/*.rpm
fi
printf 'rpm: %s\n' dist/*.rpm
