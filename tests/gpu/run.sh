#!/usr/bin/env bash
# All that needs a GPU, in one command: agreement with the CPU, the same bits twice and with every way to launch, a training,
# times beside PyTorch, and an epoch of ListOps.
#
#   tests/gpu/run.sh [--quick] [--bin DIR] [--peers DIR] [--python PATH] [--steps N] [--rounds N]
#   tests/gpu/run.sh --pack DIR      builds what it runs into DIR, for a machine without cargo
#
# Needs a driver, NVRTC and cuBLAS (docs/cuda.md); where LD_LIBRARY_PATH names none, those of a toolkit or of the Python are
# taken. Times beside PyTorch need a Python with torch for CUDA; without one rtc is timed alone. --quick leaves the times out.
# A part that fails does not keep the others from running: the end says which did, and the status is 1. What was measured goes
# to $OUT, too, where that is set. Variables make it shorter: cases (names of `rtc-bench --list`), limit (seconds of a case),
# seconds (of an epoch), updates (of a training), edits (more arguments of the epoch).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin="" quick="" pack="" peers="../shared/peers" python="python3" steps=20 rounds=3
while [[ $# -gt 0 ]]; do
    case "$1" in
        --quick) quick=1 && shift ;;
        --bin) bin="$2" && shift 2 ;;
        --pack) pack="$2" && shift 2 ;;
        --peers) peers="$2" && shift 2 ;;
        --python) python="$2" && shift 2 ;;
        --steps) steps="$2" && shift 2 ;;
        --rounds) rounds="$2" && shift 2 ;;
        *) echo "unknown argument: $1; the first lines of this file say what there is" >&2 && exit 2 ;;
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

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
out="${OUT:-$scratch/out}"
mkdir -p "$out"
if [[ -z "$bin" ]]; then
    bin="$scratch/bin"
    build "$bin"
fi

failed=()
# Runs a part, a function by its name, and goes on after it.
part() {
    echo
    echo "== $1 (after $SECONDS s)"
    shift
    # In a shell of its own: `set -e` holds in it, which it would not behind `||`.
    set +e
    (set -e; "$@")
    local status=$?
    set -e
    [[ $status -eq 0 ]] || { failed+=("$*") && echo "FAILED with status $status: $*"; }
}

# Folders that may hold NVIDIA's libraries: of a toolkit, and of the wheels that PyTorch brings.
libraries() {
    local found
    found="$("$python" -c 'import nvidia; print("\n".join(nvidia.__path__))' 2> /dev/null || true)"
    for folder in /usr/local/cuda/lib64 /usr/local/cuda*/targets/*/lib $(for n in $found; do echo "$n"/cu13/lib "$n"/*/lib; done); do
        if compgen -G "$folder/libnvrtc.so.1[23]" > /dev/null || compgen -G "$folder/libcublasLt.so.1[23]" > /dev/null; then
            echo "$folder"
        fi
    done
}
known="$(libraries | paste -sd:)"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$known"

device() {
    echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    if command -v nvidia-smi > /dev/null; then
        nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.sm --format=csv
    else
        echo "there is no nvidia-smi; rtc opens the driver itself"
    fi
    "$bin/rtc" --version
}

# Every op and every spec against the CPU, twice for the same bits; and the kernels for 8.0, 8.9 and 9.0.
parity() {
    RTC_GPU=1 "$bin/numerics" device::a_gpu_agrees_with_the_cpu --exact --nocapture
    "$bin/numerics" device::the_kernels_of_every_spec_compile_for_a_gpu --exact --nocapture
}

train() {
    "$bin/rtc" train specs/gut.rt --experiment listops_smoke --max-steps "${updates:-300}" --seed 1 --runs "$scratch" --run "$@"
}

# The same training twice and with the other way to launch: the same bits; on the CPU: about the same numbers.
training() {
    train first --device cuda
    train second --device cuda --json > /dev/null
    train direct --device cuda --launch direct --json > /dev/null
    cmp "$scratch/first/metrics.jsonl" "$scratch/second/metrics.jsonl"
    cmp "$scratch/first/metrics.jsonl" "$scratch/direct/metrics.jsonl"
    train cpu --device cpu
    "$bin/rtc" eval "$scratch/first" --device cpu
    "$bin/rtc" eval "$scratch/first" --device cuda
}

# One case in one precision; what else is given goes to the bench.
timed() {
    local name="$1" precision="$2" file="$out/$1.$2${3:-}.json"
    shift 2
    [[ $# -eq 0 ]] || shift
    timeout "${limit:-900}" "$bin/rtc-bench" --device cuda --precision "$precision" --threads 4 --steps "$steps" \
        --rounds "$rounds" --cases "$name" --json "$file" "${beside[@]}" "$@"
}

# A part of an epoch of ListOps at the paper's size, and how long all of it takes. Evaluation is not in it.
epoch() {
    local bound="$1" run="epoch$1" status=0
    timeout -s INT -k 60 "${seconds:-180}" "$bin/rtc" train specs/gut.rt --experiment listops --set "depthwise.depth=$bound" \
        ${edits:-} --with log_every=5 --device cuda --seed 1 --runs "$scratch" --run "$run" --quiet || status=$?
    # A run that is asked to stop saves and says so: that is how this one ends.
    echo "stopped with status $status"
    [[ -s "$scratch/$run/timing.jsonl" ]]
    cp "$scratch/$run/timing.jsonl" "$out/$run.jsonl"
    sed -n 's/.*"what":"train","update":\([0-9]*\),"seconds":\([0-9.e-]*\).*/\1 \2/p' "$scratch/$run/timing.jsonl" |
        awk -v bound="$bound" '
            # The first lines hold what happens once: kernels that are compiled, graphs that are recorded.
            $1 >= 20 && !first { first = $1; begin = $2 }
            { last = $1; end = $2 }
            END {
                if (!first || last == first) { print "too few updates were made"; exit 1 }
                ms = 1000 * (end - begin) / (last - first)
                # 79,400 rows in batches of 32.
                s = 2482 * ms / 1000
                printf "bound %d: %.1f ms per update, an epoch of 2,482 in %d:%02d min\n", bound, ms, s / 60, s % 60
            }'
}

part "device" device
part "every op and every spec against the CPU, twice for the same bits" parity
part "ListOps: the same training twice, with both ways to launch, and on the CPU" training

if [[ -z "$quick" ]]; then
    beside=(--alone)
    if [[ ! -f "$peers/recurrent_torch.py" ]]; then
        echo "no PyTorch implementation in $peers: rtc is timed alone"
    elif ! "$python" -c 'import torch, numpy, safetensors; torch.zeros(1, device="cuda")' 2> "$scratch/torch"; then
        echo "$python can't compute on the GPU, so rtc is timed alone: $(tail -n 1 "$scratch/torch")"
    else
        beside=(--peers "$peers" --python "$python")
        # A compiled peer needs a C compiler; where it can't be made, the eager one is left.
        if "$python" -c 'import torch; torch.compile(lambda x: x * 2)(torch.zeros(8, device="cuda"))' 2> "$scratch/torch"; then
            beside+=(--compile)
        else
            echo "torch.compile fails, so the peer runs eager alone: $(tail -n 1 "$scratch/torch")"
        fi
    fi
    for precision in f32 bf16 tf32; do
        for name in ${cases:-$("$bin/rtc-bench" --list | sed -n 's/^\([a-z_]*_card[^ ]*\) .*/\1/p')}; do
            part "times, $precision, $name" timed "$name" "$precision"
        done
    done
    for name in gut_card_d128_b32_l100 gut_card_d128_b256_l100 transformer_card_d128_b32_l100; do
        part "times without graphs, $name" timed "$name" f32 .direct --launch direct
    done
    for bound in 10 20 30 40; do
        part "a part of an epoch of ListOps, GUT at bound $bound" epoch "$bound"
    done
fi

echo
if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all passed (after $SECONDS s)"
