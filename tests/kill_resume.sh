#!/usr/bin/env bash
# Kills a training with SIGKILL at random moments, goes on each time, and compares the end with an unbroken run, byte by
# byte: weights, moments, metrics and results; with 1 and with 2 threads.
#
#   tests/kill_resume.sh [KILLS] [RTC]     20 kills and target/release/rtc unless given
#
# The moments come from SEED (default 1), so that a failure can be repeated as far as the machine's timing allows.
set -euo pipefail

kills=${1:-20}
rtc=${2:-${CARGO_TARGET_DIR:-target}/release/rtc}
RANDOM=${SEED:-1}

[ -x "$rtc" ] || { echo "there is no program $rtc: run cargo build --release" >&2; exit 2; }
rtc=$(realpath "$rtc")
place=$(mktemp -d "${TMPDIR:-/tmp}/rtc kill XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"

cat > tiny.rt <<'RT'
model tiny {
    dropout: 0.1
    embed { width: 32, tokens: start_end }
    recur depthwise {
        depth: 4
        halt global { sees: transition, threshold: 0.999, cost: 0.1 }
        gate mlp { hidden: 32 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 64 }
    }
    readout end
}
RT
cat > tiny.yaml <<'YAML'
task:
  name: listops
  options: { train_length: 40, held_out_length: 40 }
  sizes: { train: 600, dev: 64, test: 64 }
optimiser: { learning_rate: 0.002, clip: 1 }
schedule: { kind: inverse_root, warmup: 20 }
batch: { size: 16 }
epochs: 40
evaluate_every: 10
log_every: 1
evaluate: [test]
YAML

train=("$rtc" train tiny.rt --experiment tiny.yaml --quiet)
milliseconds() { echo $(($(date +%s%N) / 1000000)); }

start=$(milliseconds)
"${train[@]}" --run whole --threads 1 > whole.txt
whole=$(($(milliseconds) - start))
echo "the unbroken run took $whole ms"

for threads in 1 2; do
    run=killed$threads
    killed=0
    for ((n = 1; n <= kills; n++)); do
        "${train[@]}" --run "$run" --threads "$threads" > /dev/null &
        child=$!
        # On average less than its share of the run, so that all the kills land before the end.
        pause=$((RANDOM * 3 * whole / (2 * (kills + 1)) / 32768 + 20))
        sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
        if kill -KILL "$child" 2> /dev/null; then killed=$((killed + 1)); fi
        wait "$child" 2> /dev/null || true
    done
    "${train[@]}" --run "$run" --threads "$threads" > "$run.txt"
    for file in metrics.jsonl results.json spec.rt experiment.yaml \
        checkpoints/{last,best}/{weights.safetensors,optimiser.safetensors}; do
        cmp "runs/whole/$file" "runs/$run/$file" || { echo "$file differs with $threads threads" >&2; exit 1; }
    done
    cmp whole.txt "$run.txt"
    echo "$threads threads: $killed kills, the same bytes"
done
