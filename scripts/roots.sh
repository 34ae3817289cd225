#!/bin/sh
# roots.sh - a folder with another Slurm release, for gangstart cluster up --root FOLDER.
# Usage: roots.sh [LINE...] (default: all of the table, as in: roots.sh 24.11 26.05)
#        roots.sh --path LINE prints the folder of one that is there, else nothing, exit 1;
#        roots.sh --lines prints the lines of the table.
# Where: $GANGSTART_ROOTS, /var/cache/gangstart/roots (root) or the user's cache folder.
# A folder is named by what it was made from; one that is there is not made again.
# Packages are unpacked by mmdebstrap and not configured: 15 to 50 s and 130 MB each.
# On failure: what could not be made and why, exit 1; what was made stays. With --try, what
# this machine or its mirror cannot give is named as skipped instead, exit 0.
set -eu

SELF=$0
# Release line, the suites of Debian to look for it in, and packages that are called
# differently there.
ROOTS="
24.11  trixie          libpmix2t64
26.05  testing,sid     libpmix2t64
"
# What the daemons and the commands need, the headers, and what jobs on a node use.
PACKAGES="slurmctld slurmd slurm-client slurm-wlm-basic-plugins libslurm-dev munge
base-files bash coreutils dash findutils grep hostname iproute2 libbz2-1.0 libc-bin
libexpat1 libffi8 libgomp1 liblzma5 libstdc++6 mawk mount ncurses-base nftables procps sed
util-linux zlib1g"
MIRROR_SECONDS=600

say() {
    printf 'roots: %s\n' "$*"
}

# lack LINE WHY... - a root that cannot be had here.
lack() {
    LACKED=1
    if [ "$TRY" = 1 ]; then
        say "$1 skipped: $(shift && printf '%s' "$*")"
    else
        printf 'roots: %s: %s\n' "$1" "$(shift && printf '%s' "$*")" >&2
    fi
}

row() {
    printf '%s\n' "$ROOTS" | while read -r line suites extra; do
        [ "$line" != "$1" ] || printf '%s %s\n' "$suites" "$extra"
    done
}

cache() {
    if [ -n "${GANGSTART_ROOTS:-}" ]; then
        printf '%s' "$GANGSTART_ROOTS"
    elif [ "$(id -u)" -eq 0 ]; then
        printf '/var/cache/gangstart/roots'
    else
        printf '%s/gangstart/roots' "${XDG_CACHE_HOME:-$HOME/.cache}"
    fi
}

# folder LINE - where its root is: the name changes with what it is made from.
folder() {
    key=$({ printf '%s ' "$PACKAGES" "$(row "$1")" && sed -n '/^furnish/,/^}/p' "$SELF"; } |
        sha256sum | cut -c1-12)
    printf '%s/slurm-%s-%s' "$(cache)" "$1" "$key"
}

# shellcheck disable=SC2016 # apt's own dollars
# The mirror that apt on this machine uses for Debian itself.
mirror() {
    apt-get indextargets --format '$(SITE) $(ORIGIN) $(LABEL)' 'Created-By: Packages' \
        2>/dev/null | awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# The proxy that apt on this machine uses: mmdebstrap starts without its settings.
proxy() {
    for kind in http https; do
        value=$(apt-config dump --format '%v' "Acquire::$kind::Proxy" 2>/dev/null || true)
        [ -z "$value" ] || printf 'Acquire::%s::Proxy "%s"; ' "$kind" "$value"
    done
}

# furnish FOLDER - what the packages' own scripts would have done, as far as it is needed.
furnish() {
    rm -rf "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale" \
        "$1/var/lib/apt/lists" "$1/var/cache/apt"
    mkdir -p "$1/etc/slurm" "$1/var/lib" "$1/run" "$1/tmp"
    for program in "$1"/usr/sbin/*-wlm "$1"/usr/bin/mawk; do
        name=$(basename "$program" -wlm | sed 's/^mawk$/awk/')
        [ -e "${program%/*}/$name" ] || ln -s "${program##*/}" "${program%/*}/$name"
    done
    printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n' \
        >"$1/etc/nsswitch.conf"
    touch "$1/etc/passwd" "$1/etc/group" "$1/etc/hosts"
    ldconfig -r "$1"
}

# make_root LINE SUITE PACKAGE... - unpack one suite into $work.
make_root() {
    line=$1 suite=$2
    shift 2
    # shellcheck disable=SC2086 # a list of names
    set -- $PACKAGES "$@"
    # Release files of suites in motion expire; the signature is checked all the same.
    timeout "$MIRROR_SECONDS" mmdebstrap --quiet --variant=extract \
        --include="$(printf '%s,' "$@" | sed 's/,$//')" \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --aptopt='APT::Install-Recommends "false"' \
        --aptopt='Acquire::Retries "2"' ${PROXY:+--aptopt="$PROXY"} \
        "$suite" "$work" "$MIRROR" >"$log" 2>&1 </dev/null || return 1
    furnish "$work"
    chroot "$work" /usr/sbin/slurmd -V >"$log" 2>&1 </dev/null || return 1
    grep -q " $line\." "$log"
}

root() {
    row=$(row "$1")
    [ -n "$row" ] || {
        printf 'roots: no release line %s; there are: %s\n' "$1" "$(lines)" >&2
        exit 2
    }
    target=$(folder "$1")
    if [ -d "$target" ]; then
        say "$1 is there: $target"
        return
    fi
    [ "$(id -u)" -eq 0 ] || { lack "$1" "only root can unpack one"; return; }
    command -v mmdebstrap >/dev/null || { lack "$1" "needs mmdebstrap (apt-get install mmdebstrap)"; return; }
    MIRROR=$(mirror)
    [ -n "$MIRROR" ] || { lack "$1" "apt on this machine names no Debian mirror"; return; }
    begun=$(date +%s)
    for suite in $(printf '%s' "${row%% *}" | tr , ' '); do
        rm -rf "$work"
        # shellcheck disable=SC2086 # a list of names
        make_root "$1" "$suite" ${row#* } || continue
        mv -T "$work" "$target"
        say "$1 from $suite in $(($(date +%s) - begun)) s, $(du -sm "$target" | cut -f1) MB: $target"
        return
    done
    lack "$1" "Debian's ${row%% *} at this machine's mirror did not give it: $(tail -1 "$log")"
}

lines() {
    printf '%s\n' "$ROOTS" | while read -r line _; do printf '%s ' "$line"; done
}

if [ "${1:-}" = --lines ]; then
    lines
    echo
    exit
fi
if [ "${1:-}" = --path ]; then
    [ -d "$(folder "$2")" ] || exit 1
    folder "$2"
    echo
    exit
fi
TRY=0 LACKED=0
[ "${1:-}" != --try ] || { TRY=1 && shift; }
# shellcheck disable=SC2046 # a list of lines
[ $# -gt 0 ] || set -- $(lines)
PATH=$PATH:/usr/sbin:/sbin
PROXY=$(proxy)
mkdir -p "$(cache)"
exec 9>"$(cache)/.lock"
flock -w "$MIRROR_SECONDS" 9 || { echo "roots: another roots.sh still works in $(cache)" >&2; exit 1; }
work=$(mktemp -d "$(cache)/new.XXXXXX")
log=$(mktemp)
trap 'rm -rf "$work" "$log"' EXIT
for line in "$@"; do
    root "$line"
done
[ "$LACKED" = 0 ] || [ "$TRY" = 1 ] || exit 1
