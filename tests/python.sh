#!/usr/bin/env bash
# Builds the wheel of rtc for Python, installs it in a fresh environment, and runs the tests of python/tests and the notebook there.
#
#   tests/python.sh [PYTHON]     python3 unless given
#
# PROFILE (default release) is the profile of the build; with dev, a filled target/debug is used again. TRACKERS=1 also installs MLflow,
# W&B and Aim, without which the tests of the converters and of rtc-track are left out, TORCH=1 PyTorch, without which logits are not compared with
# its own. Needs Python 3.10 or newer and PyPI; ends with 2 where one of them is missing.
set -euo pipefail

python=${1:-python3}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}

missing() {
    echo "tests/python.sh: $*" >&2
    exit 2
}

command -v "$python" > /dev/null || missing "there is no $python: install Python 3.10 or newer, or name one"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || missing "$python is older than 3.10"
"$python" -c 'import venv, ensurepip' 2> /dev/null || missing "$python has no venv: install it (Debian: python3-venv)"
command -v cargo > /dev/null || missing "there is no cargo, which builds the program"

place=$(mktemp -d "${TMPDIR:-/tmp}/rtc-python-XXXXXX")
trap 'rm -rf "$place"' EXIT

"$python" -m venv "$place/build"
"$place/build/bin/pip" install --quiet 'maturin>=1.9,<2' || missing "maturin can't be installed from PyPI"
(cd "$root/python" && "$place/build/bin/maturin" build --profile "${PROFILE:-release}" --out "$place/wheels")

"$python" -m venv "$place/use"
extras=pandas,test
[ -z "${TRACKERS:-}" ] || extras=$extras,mlflow,wandb,aim
"$place/use/bin/pip" install --quiet "$(echo "$place"/wheels/*.whl)[$extras]" || missing "the wheel or its extras ($extras) can't be installed"
[ -z "${TORCH:-}" ] || "$place/use/bin/pip" install --quiet torch safetensors || missing "PyTorch can't be installed"

# The program and the package of the wheel, and neither those of the sources nor of the system.
unset RTC_PROGRAM PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1
export PATH=$place/use/bin:$PATH
mkdir "$place/python" "$place/docs"
cp -r "$root"/python/{tests,rtc.ipynb,pyproject.toml} "$place/python"
cp "$root"/docs/{command,python}.md "$place/docs"
cd "$place/python"
python -c 'import rtc_lang; print(rtc_lang.version(), rtc_lang.program())'
rtc-track --help > "$place/help"
python -m pytest -q -p no:cacheprovider tests
jupyter nbconvert --log-level WARN --to notebook --execute --output executed.ipynb rtc.ipynb
echo "the notebook runs"
