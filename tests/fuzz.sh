#!/usr/bin/env bash
# libFuzzer on everything that rtc reads: mutates the inputs of tests/corpus by coverage, each target for some time.
#
#   tests/fuzz.sh [SECONDS] [TARGET..]     600 seconds for each of all targets unless given
#
# New inputs are kept in FUZZ_CORPUS (~/.cache/rtc-fuzz unless set), outside of the repository, and later runs begin with them.
# Needs a nightly compiler (NIGHTLY names another one) and nothing of cargo-fuzz. An input that fails is named; copy it into
# tests/corpus/TARGET, and `cargo test --test fuzz` keeps it.
set -euo pipefail

seconds=${1:-600}
[[ $seconds =~ ^[0-9]+$ ]] || { echo "usage: tests/fuzz.sh [SECONDS] [TARGET..]" >&2; exit 2; }
shift || true
here=$(cd "$(dirname "$0")" && pwd)
found=${FUZZ_CORPUS:-${XDG_CACHE_HOME:-$HOME/.cache}/rtc-fuzz}
nightly=${NIGHTLY:-nightly}
host=$(rustc "+$nightly" -vV | sed -n 's/^host: //p')
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(ls "$here/corpus")
for target in "${targets[@]}"; do
    [ -d "$here/corpus/$target" ] || { echo "there is no target $target: $(ls "$here/corpus" | xargs)" >&2; exit 2; }
done

# What cargo-fuzz would pass; with --target no build script has it.
export RUSTFLAGS="--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
cargo "+$nightly" build --release --locked --manifest-path "$here/../fuzz/Cargo.toml" --target "$host"
program=${CARGO_TARGET_DIR:-$here/../fuzz/target}/$host/release/rtc-fuzz

status=0
for target in "${targets[@]}"; do
    mkdir -p "$found/$target" "$found/failures"
    log=$found/$target.log
    before=$(ls "$found/$target" | wc -l)
    result="no failure"
    RTC_FUZZ_TARGET=$target "$program" "$found/$target" "$here/corpus/$target" -max_total_time="$seconds" -max_len=65536 \
        -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$found/failures/$target-" > "$log" 2>&1 ||
        { status=1; result="FAILED: $(sed -n 's/.*Test unit written to //p' "$log" | tail -1), see $log"; }
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    new=$(($(ls "$found/$target" | wc -l) - before))
    echo "$target: ${executed:-0} executions, coverage ${edges:-0} edges, $new new inputs, $result"
done
exit $status
