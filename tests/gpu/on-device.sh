#!/usr/bin/env bash
# What first-light.sh runs on the machine with the GPU, in the root of the project: bash .gpu/carry/device.sh SECONDS
#
# Parts, in the order of what they tell; ONLY=a,b picks some:
#   start      six models train a few updates in single precision, on the GPU and on the CPU: does it start, are the losses equal
#   agree      every op, every spec and paper-size steps against the CPU, twice for equal bits (numerics device::a_gpu_agrees_with_the_cpu)
#   sanitize   every op under NVIDIA's four checkers
#   times      gut, transformer, gutlb of width 512: rtc alone, then beside PyTorch eager and SDPA; f32, bf16, tf32
#   profile    time by kernel (ncu) of a step of gut and of the transformer
#   compiled   the same beside torch.compile
#   epoch      a part of an epoch of ListOps at the paper's size
# Runs of one part go side by side in start, agree and sanitize, and alone from times on. A part that fails hides no other.
# $OUT/summary.txt has what counts, $OUT/logs.tar.gz everything: two files, since eight are the most that come back.
set -eu
set +e # a part that fails hides no other
total="${1:-420}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
bin="$here/bin" python="${PYTHON:-python3}"
# Programs travel packed: they are three quarters of what may be carried.
[[ ! -f "$here/bin.tar.gz" ]] || { bin="$(mktemp -d)" && tar -xzf "$here/bin.tar.gz" -C "$bin"; }
out="${OUT:-$PWD/out}" && mkdir -p "$out"
logs="$(mktemp -d)" runs="$(mktemp -d)"
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}"
export RUST_BACKTRACE=1 PYTHONUNBUFFERED=1 XDG_CACHE_HOME="$here/cache"
threads="$(nproc)"

left() { echo $((total - SECONDS)); }
say() { printf '[%3d s] %s\n' "$SECONDS" "$*" | tee -a "$out/summary.txt"; }
keep() { tar -C "$logs" -czf "$out/logs.tar.gz" . 2> /dev/null; }
trap keep EXIT
wanted() { [[ -z "${ONLY:-}" || ",$ONLY," == *",$1,"* ]]; }
# The first lines of a log that say what went wrong.
wrong() { grep -m "${2:-6}" -n -i -E 'error|failed|panicked|differ|CUDA_|illegal|mismatch|Traceback|========= (Invalid|Error|Race|ERROR)' "$logs/$1.log" | cut -c1-400 | sed "s|^|    $1: |" | tee -a "$out/summary.txt"; }
cat > "$logs/ends_by_request" << 'END'
#!/usr/bin/env bash
timeout -s INT -k 10 "$@"
status=$?
[[ $status == 0 || $status == 75 || $status == 124 ]]
END
chmod +x "$logs/ends_by_request"
PATH="$logs:$PATH"
# A command with a name and a limit; its output is in logs/NAME.log.
try() {
    local name="$1" limit="$2" status begin=$SECONDS
    shift 2
    (( limit < $(left) )) || limit=$(left)
    (( limit > 5 )) || { say "$name: no time left"; return 1; }
    timeout -k 5 "$limit" "$@" > "$logs/$name.log" 2>&1
    status=$?
    if (( status == 0 )); then say "$name: ok ($((SECONDS - begin)) s)"; else say "$name: STATUS $status ($((SECONDS - begin)) s of $limit)"; wrong "$name"; fi
    keep
    return $status
}

# ---- the machine
if [[ -n "${DRY:-}" ]]; then
    export LD_LIBRARY_PATH="$DRY" PRETEND_IDLE=1 PRETEND_MEMORY=81920 RTC_UNCHECKED_DEVICE=1
else
    found="$("$python" -c 'import nvidia; print("\n".join(nvidia.__path__))' 2> /dev/null)"
    for folder in /usr/local/cuda/lib64 /usr/local/cuda*/targets/*/lib $(for n in $found; do echo "$n"/cu13/lib "$n"/*/lib; done); do
        if compgen -G "$folder/libnvrtc.so*" > /dev/null || compgen -G "$folder/libcublasLt.so*" > /dev/null; then
            export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
        fi
    done
fi
{
    nvidia-smi; nvidia-smi --query-gpu=name,compute_cap,driver_version,memory.total,clocks.max.sm --format=csv
    uname -a; nproc; free -g; ldd --version | head -n 1; echo "LD_LIBRARY_PATH=$LD_LIBRARY_PATH"
    ldconfig -p | grep -E 'libcuda\.|libnvrtc|libcublasLt'
    for n in ${LD_LIBRARY_PATH//:/ }; do ls -l "$n" | grep -E 'nvrtc|cublasLt' ; done
    "$bin/rtc" --version; ldd "$bin/rtc"
    ls -R "$here/cache" | tail -n 30
} > "$logs/machine.log" 2>&1
say "$(sed -n 's/^\(NVIDIA.*\)/\1/p' "$logs/machine.log" | grep , | head -n 1); $(nproc) CPUs; $("$bin/rtc" --version 2>&1 | head -n 1)"

# ---- start: what each model is trained on, small
models=(gut:listops_smoke transformer:listops_smoke gutlb:listops_smoke trm:sudoku_smoke huginn:looped_language_smoke rir_grc:listops_trees_smoke)
train() { # SPEC EXPERIMENT DEVICE LIMIT more...
    timeout -k 5 "$4" "$bin/rtc" train "specs/$1.rt" --experiment "$2" --max-steps 12 --seed 1 --with log_every=1 --with 'evaluate=[]' \
        --runs "$runs" --run "$1.$3" --device "$3" "${@:5}" > "$logs/start.$1.$3.log" 2>&1
    echo $? > "$logs/start.$1.$3.status"
}
losses() { sed -n 's/^{"kind":"step","update":\([0-9]*\),.*"loss":\([0-9.e+-]*\),.*/\1 \2/p' "$runs/$1/metrics.jsonl" 2> /dev/null; }
start() {
    local model spec limit=90 one
    if [[ -n "${DRY:-}" ]]; then
        # Kernels are compiled once for all, by few CPUs.
        limit=600
        train gut listops_smoke cuda "$limit"
    fi
    (( limit < $(left) )) || limit=$(left)
    for model in "${models[@]}"; do
        spec="${model%%:*}"
        train "$spec" "${model#*:}" cuda "$limit" &
        train "$spec" "${model#*:}" cpu "$limit" --threads 2 &
    done
    wait
    working=0
    for model in "${models[@]}"; do
        spec="${model%%:*}"
        one="$(awk 'NR == FNR { a[$1] = $2 } NR > FNR && ($1 in a) { d = (a[$1] - $2) / ($2 == 0 ? 1 : $2); d = d < 0 ? -d : d; if (d > most) most = d; n++; if (!(d <= 1e-3) && !first) first = $1 }
            END { printf "%d losses agree to %.1e%s", n, most, first ? ", MORE THAN 1e-3 from update " first " on" : "" }' <(losses "$spec.cuda") <(losses "$spec.cpu"))"
        say "start $spec: cuda $(cat "$logs/start.$spec.cuda.status"), cpu $(cat "$logs/start.$spec.cpu.status"), $one"
        if [[ "$(cat "$logs/start.$spec.cuda.status")" == 0 ]]; then working=$((working + 1)); else wrong "start.$spec.cuda"; fi
    done
}
if wanted start; then
    start
    keep
    if (( working == 0 )) && [[ -z "${DRY:-}" ]]; then
        say "nothing starts: the whole first log follows, the rest is left out"
        tee -a "$out/summary.txt" < "$logs/start.gut.cuda.log" | tail -n 80
        CUDA_LAUNCH_BLOCKING=1 timeout 30 "$bin/rtc" train specs/gut.rt --max-steps 2 --with 'evaluate=[]' --runs "$runs" --run again --device cuda --launch direct 2>&1 | tee "$logs/again.log" | tail -n 20
        command -v compute-sanitizer > /dev/null && timeout 60 compute-sanitizer --print-limit 10 "$bin/rtc" train specs/gut.rt --max-steps 1 --with 'evaluate=[]' \
            --runs "$runs" --run sane --device cuda --launch direct > "$logs/sane.log" 2>&1 && grep -m 40 = "$logs/sane.log" | tee -a "$out/summary.txt"
        exit 3
    fi
fi

# ---- agree, and the checkers beside it
one_test() { echo "$bin/numerics" "device::$1" --exact --nocapture; }
background=()
if wanted agree; then
    try agree 170 env RTC_GPU=1 $(one_test a_gpu_agrees_with_the_cpu) &
    background+=($!)
fi
if wanted sanitize; then
    if command -v compute-sanitizer > /dev/null; then
        for tool in memcheck racecheck initcheck synccheck; do
            try "sanitize.$tool" 120 env RTC_GPU=1 RTC_GPU_FROM=0 compute-sanitizer --tool "$tool" --kernel-name kns=rtc_ --error-exitcode 9 --print-limit 20 $(one_test a_gpu_runs_every_op) &
            background+=($!)
        done
    else
        say "sanitize: there is no compute-sanitizer"
    fi
fi
(( ${#background[@]} == 0 )) || wait "${background[@]}"

# ---- times: nothing else runs now
cases=(gut_card_d512_b32_l100 transformer_card_d512_b32_l1024 gutlb_card_d512_b32_l100)
bench() { # NAME LIMIT PRECISION CASES more...
    local name="$1" limit="$2" precision="$3" which="$4"
    shift 4
    try "$name" "$limit" "$bin/rtc-bench" --device cuda --precision "$precision" --threads 4 --steps 10 --rounds 2 --cases "$which" --json "$logs/$name.json" "$@"
    # The tables: training step, then memory, then forward passes.
    grep -E '^(Training|Inference|case |[a-z_0-9]+_card_)' "$logs/$name.log" | cut -c1-170 | sed 's/^/    /' | tee -a "$out/summary.txt"
}
all="$(IFS=,; echo "${cases[*]}")"
beside=(--peers "$here/peers" --python "$(command -v "$python")")
if wanted times; then
    for precision in f32 bf16; do bench "alone.$precision" 60 "$precision" "$all" --alone; done
    bench alone.direct 30 f32 "${cases[0]}" --alone --launch direct
    if [[ -f "$here/peers/recurrent_torch.py" && -z "${DRY:-}" ]]; then
        # Each case by itself: losses that differ end a case, and must not hide the others.
        for precision in f32 bf16; do
            for name in "${cases[@]}" transformer_sdpa_card_d512_b32_l1024; do bench "eager.$precision.$name" 75 "$precision" "$name" "${beside[@]}"; done
        done
    fi
fi
# Models without a case in the bench: rtc alone, milliseconds an update from the 10th on.
field() { # NAME SPEC EXPERIMENT more...
    local name="$1"
    try "field.$name" 60 "$bin/rtc" train "specs/$2.rt" --experiment "$3" --max-steps 40 --seed 1 --with log_every=5 --with 'evaluate=[]' --with batch.size=64 \
        --device cuda --runs "$runs" --run "field.$name" --quiet "${@:4}"
    sed -n 's/.*"what":"train","update":\([0-9]*\),"seconds":\([0-9.e-]*\).*/\1 \2/p' "$runs/field.$name/timing.jsonl" 2> /dev/null |
        awk -v name="$name" '$1 >= 10 && !n { n = $1; t = $2 } { m = $1; u = $2 } END { if (m > n) printf "    %s: %.1f ms an update\n", name, 1000 * (u - t) / (m - n) }' | tee -a "$out/summary.txt"
}
if wanted times && [[ -z "${DRY:-}" ]]; then
    trm=(--set embed.width=512 --set 'let heads = 8' --set 'let thoughts = 6' --set 'let rounds = 3')
    for precision in f32 bf16; do
        field "trm512.$precision" trm sudoku_smoke --precision "$precision" "${trm[@]}"
        field "huginn1024.$precision" huginn looped_language_smoke --precision "$precision" --set embed.width=1024 --set 'let heads = 8'
    done
fi
by_kernel='
import csv, sys, collections
rows = [r for r in csv.reader(open(sys.argv[1], errors="replace")) if len(r) > 10]
if not rows: sys.exit("nothing was profiled")
head = rows[0]; k, m, v = head.index("Kernel Name"), head.index("Metric Name"), head.index("Metric Value")
time = collections.defaultdict(list); other = collections.defaultdict(list)
for r in rows[1:]:
    try: x = float(r[v].replace(",", ""))
    except ValueError: continue
    (time if "duration" in r[m] else other)[r[k] if "duration" in r[m] else (r[k], r[m][:24])].append(x)
total = sum(map(sum, time.values()))
for name, t in sorted(time.items(), key=lambda e: -sum(e[1]))[:25]:
    more = " ".join("%s %.0f%%" % (n[1].split("__")[0], sum(x) / len(x)) for n, x in other.items() if n[0] == name)
    print("%6.1f %% %5d x %9.1f us  %s  %s" % (100 * sum(t) / total, len(t), sum(t) / len(t) / (1000 if max(t) > 5000 else 1), name[:60], more))
'
if wanted profile && command -v ncu > /dev/null; then
    for spec in gut transformer; do
        try "profile.$spec" 60 ncu --clock-control none --csv --launch-skip 1500 --launch-count 700 --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__throughput.avg.pct_of_peak_sustained_elapsed \
            --log-file "$logs/ncu.$spec.csv" "$bin/rtc" train "specs/$spec.rt" --experiment listops --max-steps 6 --seed 1 --with 'evaluate=[]' --halting never --launch direct --runs "$runs" --run "ncu.$spec" --device cuda
        grep '^"' "$logs/ncu.$spec.csv" > "$logs/ncu.$spec.rows" 2> /dev/null && "$python" -c "$by_kernel" "$logs/ncu.$spec.rows" 2>&1 | tee "$logs/kernels.$spec.txt" | head -n 12 | sed 's/^/    /' | tee -a "$out/summary.txt"
    done
fi
if wanted epoch; then
    # Asked to stop it saves and says so: that is how this one ends.
    try epoch 75 ends_by_request 60 "$bin/rtc" train specs/gut.rt --experiment listops --set depthwise.depth=10 --with log_every=5 --with 'evaluate=[]' --device cuda --seed 1 --runs "$runs" --run epoch --quiet
    sed -n 's/.*"what":"train","update":\([0-9]*\),"seconds":\([0-9.e-]*\).*/\1 \2/p' "$runs/epoch/timing.jsonl" 2> /dev/null |
        awk '$1 >= 20 && !n { n = $1; t = $2 } { m = $1; u = $2 } END { if (m > n) { ms = 1000 * (u - t) / (m - n); printf "gut at the paper'"'"'s size, bound 10: %.1f ms an update, an epoch of 2,482 in %.1f min\n", ms, 2482 * ms / 60000 } }' | tee -a "$out/summary.txt"
fi
if wanted compiled && [[ -f "$here/peers/recurrent_torch.py" && -z "${DRY:-}" ]]; then
    for precision in bf16 f32; do
        for name in "${cases[0]}" transformer_sdpa_card_d512_b32_l1024; do bench "compiled.$precision.$name" 150 "$precision" "$name" "${beside[@]}" --compile; done
    done
fi
say "end"
