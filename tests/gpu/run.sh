#!/usr/bin/env bash
# All that needs a GPU, in one command: agreement with the CPU, the same bits twice, a training, and times beside PyTorch.
#
#   tests/gpu/run.sh [--quick] [--bin DIR] [arguments of rtc-bench, as --peers DIR --python PATH]
#   tests/gpu/run.sh --pack DIR      builds what it runs into DIR, for a machine without cargo
#
# Needs a driver, NVRTC and cuBLAS (docs/cuda.md), and for times a Python with torch for CUDA. --quick leaves the times out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin="" quick="" pack=""
while [[ $# -gt 0 ]]; do
    case "$1" in
        --quick) quick=1 && shift ;;
        --bin) bin="$2" && shift 2 ;;
        --pack) pack="$2" && shift 2 ;;
        *) break ;;
    esac
done

# The programs: rtc, rtc-bench, and the tests of numbers.
build() {
    cargo build --release --locked --features rtc/cuda,rtc-bench/cuda -p rtc -p rtc-bench
    local tests
    tests="$(cargo test --release --locked -p rtc-tests --features cuda --test numerics --no-run --message-format=json \
        | sed -n 's/.*"executable":"\([^"]*numerics[^"]*\)".*/\1/p' | tail -n 1)"
    mkdir -p "$1"
    strip -o "$1/rtc" "${CARGO_TARGET_DIR:-target}/release/rtc"
    strip -o "$1/rtc-bench" "${CARGO_TARGET_DIR:-target}/release/rtc-bench"
    strip -o "$1/numerics" "$tests"
}
if [[ -n "$pack" ]]; then
    build "$pack"
    exit
fi

step() {
    echo
    echo "== $* (after $SECONDS s)"
}
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
if [[ -z "$bin" ]]; then
    bin="$scratch/bin"
    build "$bin"
fi

step "device"
nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total --format=csv

step "every op and every spec against the CPU, twice for the same bits"
RTC_GPU=1 "$bin/numerics" device::a_gpu_agrees_with_the_cpu --exact --nocapture

step "ListOps: the same training twice, and on the CPU"
train() {
    "$bin/rtc" train specs/gut.rt --experiment listops_smoke --max-steps 300 --seed 1 --runs "$scratch" --run "$@"
}
train first --device cuda
train second --device cuda --json > /dev/null
cmp "$scratch/first/metrics.jsonl" "$scratch/second/metrics.jsonl"
train cpu --device cpu
"$bin/rtc" eval "$scratch/first" --device cpu

[[ -z "$quick" ]] || exit 0
for precision in f32 tf32 bf16; do
    step "times beside PyTorch, $precision"
    "$bin/rtc-bench" --device cuda --precision "$precision" --threads 4 --compile --json "$scratch/$precision.json" "$@"
    [[ -z "${OUT:-}" ]] || cp "$scratch/$precision.json" "$OUT/"
done
