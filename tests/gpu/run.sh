#!/usr/bin/env bash
# All that needs a GPU, in one command: agreement with the CPU, kernels under NVIDIA's checkers, the same bits twice and with every
# way to launch, a training, times beside PyTorch, and an epoch of ListOps. What tells most in a short time comes first.
#
#   tests/gpu/run.sh [--quick] [--bin DIR] [--peers DIR] [--python PATH] [--steps N] [--rounds N]
#   tests/gpu/run.sh --pack DIR      builds what it runs into DIR, for a machine without cargo
#
# Needs a driver, NVRTC and cuBLAS (docs/cuda.md); where LD_LIBRARY_PATH names none, those of a toolkit or of the Python are
# taken. Times beside PyTorch need a Python with torch for CUDA; without one rtc is timed alone. The checkers need
# compute-sanitizer, from a toolkit or the wheel `nvidia-cuda-sanitizer-api`; --pack takes it along. --quick ends within ten minutes:
# agreement, checkers, and a few steps of three cases. A part that fails does not keep the others from running: the end says which did,
# and the status is 1. What was measured goes to $OUT, too, where that is set. Variables make it shorter: cases (names of
# `rtc-bench --list`), limit (seconds of a case), patience (of the agreement), checking (of a checker), seconds (of an epoch), updates (of
# a training), edits (more arguments of the epoch).
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
    local tests
    # One call: what they share is compiled once.
    tests="$(cargo build --release --locked -p rtc -p rtc-bench -p rtc-tests --bins --test numerics --message-format=json-render-diagnostics \
        | sed -n 's/.*"executable":"\([^"]*numerics[^"]*\)".*/\1/p' | tail -n 1)"
    mkdir -p "$1"
    strip -o "$1/rtc" "${CARGO_TARGET_DIR:-target}/release/rtc"
    strip -o "$1/rtc-bench" "${CARGO_TARGET_DIR:-target}/release/rtc-bench"
    strip -o "$1/numerics" "$tests"
}

# The folder of compute-sanitizer with its libraries: one that was packed, one of a toolkit, or one of a wheel.
checkers() {
    local found folder
    found="$(command -v compute-sanitizer || true)"
    [[ -z "$found" ]] || found="$(dirname "$(readlink -f "$found")")"
    for folder in "$bin/compute-sanitizer" ${found:+"$found" "$found/../compute-sanitizer"} /usr/local/cuda*/compute-sanitizer \
        $(wheels | sed 's|$|/cu13/compute-sanitizer|'); do
        if [[ -x "$folder/compute-sanitizer" && -e "$folder/libsanitizer-collection.so" ]]; then
            echo "$folder"
            return
        fi
    done
}
# Where the wheels of the Python put NVIDIA's libraries.
wheels() {
    "$python" -c 'import nvidia; print("\n".join(nvidia.__path__))' 2> /dev/null || true
}
if [[ -n "$pack" ]]; then
    build "$pack"
    folder="$(checkers)"
    if [[ -n "$folder" ]]; then
        mkdir -p "$pack/compute-sanitizer"
        cp "$folder"/*compute-sanitizer "$folder"/Tree* "$folder"/lib*.so "$pack/compute-sanitizer"
    else
        echo "compute-sanitizer is not packed: it is not on this machine"
    fi
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
    [[ $status -ne 124 ]] || echo "it took longer than its limit"
    [[ $status -eq 0 ]] || { failed+=("$*") && echo "FAILED with status $status: $*"; }
}

# Folders that may hold NVIDIA's libraries: of a toolkit, and of the wheels that PyTorch brings.
libraries() {
    local found folder
    found="$(wheels)"
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

# A test of numbers by its name, within so many seconds, behind a command.
test_of() {
    local name="$1" limit="$2"
    shift 2
    RTC_GPU=1 timeout -k 10 "$limit" "$@" "$bin/numerics" "device::$name" --exact --nocapture
}

# Every op under one of NVIDIA's checkers, in parts side by side. The kernels of its libraries are their own business.
checked() {
    local folder parts pids=() n status=0
    folder="$(checkers)"
    if [[ -z "$folder" ]]; then
        echo "skipped: there is no compute-sanitizer (of a toolkit, or of the wheel nvidia-cuda-sanitizer-api)"
        return
    fi
    parts=$(( $(nproc) < 8 ? $(nproc) : 8 ))
    for ((n = 0; n < parts; n++)); do
        # From case 0 on in the process that is watched, instead of in one of its own.
        RTC_GPU_FROM=0 RTC_CASES="$n/$parts" test_of a_gpu_runs_every_op "$checking" "$folder/compute-sanitizer" --tool "$1" --kernel-name kns=rtc_ \
            --error-exitcode 9 --print-limit 20 > "$scratch/$1.$n.log" 2>&1 &
        pids+=($!)
    done
    for ((n = 0; n < parts; n++)); do
        wait "${pids[n]}" || { status=$? && echo "part $n ended with status $status:" && tail -n 40 "$scratch/$1.$n.log"; }
    done
    echo "$(cat "$scratch/$1".*.log | grep -c ' agrees$') ops ran under $1 and agree with the CPU"
    return "$status"
}

train() {
    "$bin/rtc" train specs/gut.rt --experiment listops_smoke --max-steps "${updates:-300}" --seed 1 --runs "$scratch" --run "$@"
}

# The losses of a training, update by update.
losses() {
    sed -n 's/^{"kind":"step","update":\([0-9]*\),.*"loss":\([0-9.e+-]*\),.*/\1 \2/p' "$scratch/$1/metrics.jsonl"
}

# Fails unless numbers in two columns agree to `limit`, relatively, and there are any.
agree() {
    awk -v limit="$1" '
        { d = $1 > $2 ? $1 - $2 : $2 - $1; size = $2 > 0 ? $2 : -$2; share = d / (size > 1e-6 ? size : 1e-6) }
        !(share <= limit) { print "they differ:", $1, "and", $2; bad = 1 }
        { if (share > most) most = share; count++ }
        END { print count + 0, "numbers agree to", most + 0; exit bad || !count }'
}

# The same training twice and with the other way to launch: the same bits. On the CPU: the same losses at the beginning, before
# roundings have grown; and the same weights give the same losses on both.
training() {
    train first --device cuda
    train second --device cuda --json > /dev/null
    train direct --device cuda --launch direct --json > /dev/null
    cmp "$scratch/first/metrics.jsonl" "$scratch/second/metrics.jsonl"
    cmp "$scratch/first/metrics.jsonl" "$scratch/direct/metrics.jsonl"
    train cpu --device cpu
    awk 'NR == FNR { first[$1] = $2 } NR > FNR && $1 <= 50 { print first[$1], $2 }' <(losses first) <(losses cpu) | agree 1e-3
    local device
    for device in cpu cuda; do
        "$bin/rtc" eval "$scratch/first" --device "$device" --json | tee "$scratch/$device.json"
        grep -o '"loss": *[0-9.e+-]*' "$scratch/$device.json" | sed 's/.*: *//' > "$scratch/$device.losses"
    done
    paste -d' ' "$scratch/cuda.losses" "$scratch/cpu.losses" | agree 1e-3
}

# One case in one precision; what else is given goes to the bench. A step of the largest takes many seconds.
timed() {
    local name="$1" precision="$2" file="$out/$1.$2${3:-}.json" steps="$steps" rounds="$rounds"
    shift 2
    [[ $# -eq 0 ]] || shift
    [[ "$name" != *_d512_b256_l1024 ]] || { steps=2 && rounds=1; }
    timeout -k 10 "$limit" "$bin/rtc-bench" --device cuda --precision "$precision" --threads 4 --steps "$steps" --rounds "$rounds" \
        --cases "$name" --json "$file" "${beside[@]}" "$@"
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

# What rtc is timed beside.
choose_peers() {
    beside=(--alone)
    if [[ ! -f "$peers/recurrent_torch.py" ]]; then
        echo "no PyTorch implementation in $peers: rtc is timed alone"
    elif ! "$python" -c 'import torch, numpy, safetensors; torch.zeros(1, device="cuda")' 2> "$scratch/torch"; then
        echo "$python can't compute on the GPU, so rtc is timed alone: $(tail -n 1 "$scratch/torch")"
    else
        beside=(--peers "$peers" --python "$python")
        # To compile takes longer than to measure.
        [[ -z "$quick" ]] || return 0
        # A compiled peer needs a C compiler; where it can't be made, the eager one is left.
        if "$python" -c 'import torch; torch.compile(lambda x: x * 2)(torch.zeros(8, device="cuda"))' 2> "$scratch/torch"; then
            beside+=(--compile)
        else
            echo "torch.compile fails, so the peer runs eager alone: $(tail -n 1 "$scratch/torch")"
        fi
    fi
}

# The limits of a quick run are less than ten minutes together.
if [[ -n "$quick" ]]; then
    patience="${patience:-180}" checking="${checking:-60}" limit="${limit:-45}" steps=5 rounds=1
else
    patience="${patience:-900}" checking="${checking:-300}" limit="${limit:-900}"
fi
first=(gut_card_d512_b32_l100 transformer_card_d512_b32_l1024 gutlb_card_d512_b32_l100)

part "device" device
part "every op and every spec against the CPU, twice for the same bits" test_of a_gpu_agrees_with_the_cpu "$patience"
for tool in memcheck racecheck initcheck synccheck; do
    part "every op under $tool" checked "$tool"
done
choose_peers
if [[ -n "$quick" ]]; then
    for name in ${cases:-"${first[@]}"}; do
        part "times, f32, $name" timed "$name" f32
    done
else
    part "ListOps: the same training twice, with both ways to launch, and on the CPU" training
    part "a part of an epoch of ListOps, GUT at bound 10" epoch 10
    all="$("$bin/rtc-bench" --list | sed -n 's/^\([a-z_]*_card[^ ]*\) .*/\1/p')"
    others="$(grep -vxF "$(printf '%s\n' "${first[@]}")" <<< "$all")"
    for precision in f32 bf16 tf32; do
        for name in ${cases:-"${first[@]}" $others}; do
            part "times, $precision, $name" timed "$name" "$precision"
        done
    done
    for name in gut_card_d128_b32_l100 gut_card_d128_b256_l100 transformer_card_d128_b32_l100; do
        part "times without graphs, $name" timed "$name" f32 .direct --launch direct
    done
    for bound in 20 30 40; do
        part "a part of an epoch of ListOps, GUT at bound $bound" epoch "$bound"
    done
    part "the kernels of every spec for 8.0, 8.9 and 9.0" test_of the_kernels_of_every_spec_compile_for_a_gpu "$patience"
fi

echo
if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all passed (after $SECONDS s)"
