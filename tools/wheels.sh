#!/usr/bin/env bash
# The wheel of rtc for every Linux with glibc 2.28 or newer (manylinux_2_28: Debian 10, Ubuntu 18.10, RHEL 8 and later) on the kind of
# processor of this machine: zig links against the symbols of that version, whatever glibc is here. Installs it in a fresh environment and
# starts the program.
#
#   tools/wheels.sh [FOLDER]     into FOLDER (default: wheels); 10 to 40 minutes
#
# Needs Python 3.10 or newer (PYTHON names another than python3), PyPI and cargo; ends with 2 where one of them is missing.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
mkdir -p "${1:-$root/wheels}"
folder=$(cd "${1:-$root/wheels}" && pwd)

missing() {
    echo "tools/wheels.sh: $*" >&2
    exit 2
}

"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null ||
    missing "$python is no Python 3.10 or newer with venv (Debian: python3-venv)"
command -v cargo > /dev/null || missing "there is no cargo, which builds the program"

place=$(mktemp -d "${TMPDIR:-/tmp}/rtc-wheels-XXXXXX")
trap 'rm -rf "$place"' EXIT
"$python" -m venv "$place/build"
"$place/build/bin/pip" install --quiet 'maturin>=1.9,<2' ziglang auditwheel || missing "maturin, ziglang and auditwheel can't be installed from PyPI"

# maturin takes zig's place in PATH or the Python module of the same environment.
target=$(rustc -vV | sed -n 's/^host: //p')
(cd "$root/python" && PATH=$place/build/bin:$PATH maturin build --release --locked --strip --zig --target "$target" \
    --compatibility manylinux_2_28 --out "$folder")
wheel=$(ls -t "$folder"/*.whl | head -n 1)
"$place/build/bin/auditwheel" show "$wheel"

"$python" -m venv "$place/use"
"$place/use/bin/pip" install --quiet "$wheel" || missing "the wheel can't be installed"
(cd "$place" && env -u RTC_PROGRAM -u PYTHONPATH "$place/use/bin/python" -c 'import rtc_lang; print(rtc_lang.version(), rtc_lang.program())')
ls -l "$wheel"
