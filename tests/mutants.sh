#!/usr/bin/env bash
# Mutation testing of what must not be wrong: gradients, the proof of causality, checkpoints, loops. Faults are put into a copy of the
# sources, one at a time, and the tests of their place must notice (mutants/main.rs has the places, their tests and the faults).
#
#   tests/mutants.sh [PLACE..]     gradient causality checkpoint loops unless given
#
# PART (default 1/1) takes a part of the mutants: 3/10 is every tenth from the third. Prints every mutant with the test that caught it, and
# the share. MUTANTS_TREE names a folder for the copy that is kept, so that the next run need not build all of it. The reference numbers are
# those that .ci/run takes.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
part=${PART:-1/1}
[[ $part =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] || { echo "PART is like 3/10" >&2; exit 2; }
places=("$@")
[ $# -gt 0 ] || places=(gradient causality checkpoint loops)
. "$here/tests/references.sh"
export RTC_TURN=${RTC_TURN:-all} # a mutant may show in any model

cargo build --release --locked --manifest-path "$here/mutants/Cargo.toml"
program=${CARGO_TARGET_DIR:-$here/mutants/target}/release/rtc-mutants
copy=${MUTANTS_TREE:-$(mktemp -d "${TMPDIR:-/tmp}/rtc-mutants-XXXXXX")}
[ -n "${MUTANTS_TREE:-}" ] || trap 'rm -rf "$copy"' EXIT
"$program" "$here" "$copy" "$part" "${places[@]}"
