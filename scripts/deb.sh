#!/bin/sh
# deb.sh - builds gangstart_*.deb and gangstart-spank_*.deb into dist/, and checks them.
# Usage: deb.sh     (make deb installs what it needs)
# On failure: the failing command and its output, or lintian's complaints, exit 1.
set -eu

cd "$(dirname "$0")/.."
BUILD=build/deb
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' pyproject.toml)

rm -rf "$BUILD"
mkdir -p "$BUILD" dist
rm -f dist/*.deb
ROOT=$PWD
mkdir "$BUILD/gangstart-$VERSION"
cp -R packaging/debian "$BUILD/gangstart-$VERSION/debian"
sed "s/@VERSION@/$VERSION/; s/@DATE@/$(date -R -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}")/" \
    packaging/debian/changelog >"$BUILD/gangstart-$VERSION/debian/changelog"
cp NEWS LICENSE "$BUILD/gangstart-$VERSION/"
scripts/stage.sh "$BUILD/stage" /usr/lib/python3/dist-packages
(
    cd "$BUILD/gangstart-$VERSION"
    DEB_BUILD_OPTIONS=noautodbgsym GANGSTART_STAGE=$ROOT/$BUILD/stage \
        dpkg-buildpackage --build=binary --no-sign >../log 2>&1
) || {
    tail -n 40 "$BUILD/log" >&2
    exit 1
}
cp "$BUILD"/*.deb dist/
lintian --allow-root --fail-on error,warning,info --suppress-tags-from-file packaging/lintian dist/*.deb
printf 'deb: %s\n' dist/*.deb
