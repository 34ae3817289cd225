#!/bin/sh
# lint.sh - every static check of the repository; make lint installs what it needs.
# Usage: lint.sh [NAME...] (default: all). All checks run, then the failed ones are named.
# On failure: the check's own output and exit 1.
set -eu

cd "$(dirname "$0")/.."
BIN=.venv/bin
FAILED=
CHECKS="c-format cppcheck analyzer ruff ruff-format mypy shellcheck words"

c_files() {
    find spank tests bench -name '*.c' "$@"
}

shell_files() {
    find . \( -name .git -o -name .venv -o -name build \) -prune \
        -o \( -name '*.sh' -o -path './.ci/run' -o -path './slurm-conf/*.d/50-*' \
        -o -path './packaging/choose-plugin' \
        -o -path './packaging/debian/*.postinst' -o -path './packaging/debian/*.prerm' \
        -o -path './slurm-conf/healthcheck' -o -path './slurm-conf/set-reason' \) \
        -type f -print
}

check_c_format() {
    c_files -o -name '*.h' | xargs -r "$BIN/clang-format" --dry-run -Werror
}

# variableScope: this code declares at the top of a function.
check_cppcheck() {
    cppcheck --quiet --enable=warning,style,performance,portability --inline-suppr \
        --suppress=variableScope \
        --error-exitcode=1 --std=c11 -Ispank/core -Ispank/plugin -Ispank/probe spank
}

check_analyzer() {
    find spank -name '*.c' -print0 |
        xargs -0 -r -n1 -P"$(nproc)" gcc -fanalyzer -Werror -Wall -Wextra -std=gnu11 -O1 \
            -D_GNU_SOURCE -DGS_VERSION='"lint"' -Ispank/core -Ispank/plugin -Ispank/probe \
            -I"${GANGSTART_SLURM_INCLUDE:-/usr/include}" -c -o /dev/null
}

check_ruff() {
    "$BIN/ruff" check --quiet .
}

check_ruff_format() {
    "$BIN/ruff" format --check --quiet --diff .
}

check_mypy() {
    "$BIN/mypy"
}

check_shellcheck() {
    shell_files | xargs -r "$BIN/shellcheck"
}

check_words() {
    "$BIN/python" -m pytest -q -p no:cacheprovider tests/test_repo.py tests/test_limits.py
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # a list of names
[ $# -gt 0 ] || set -- $CHECKS
for name in "$@"; do
    case " $CHECKS " in
    *" $name "*) ;;
    *)
        printf 'lint: no check %s; there are: %s\n' "$name" "$CHECKS" >&2
        exit 1
        ;;
    esac
    if "check_$(printf %s "$name" | tr - _)" >"$log" 2>&1; then
        printf 'lint: %-12s ok\n' "$name"
    else
        printf 'lint: %-12s FAILED\n' "$name"
        sed 's/^/    /' "$log"
        FAILED="$FAILED $name"
    fi
done
if [ -n "$FAILED" ]; then
    printf 'lint: failed:%s\n' "$FAILED" >&2
    exit 1
fi
