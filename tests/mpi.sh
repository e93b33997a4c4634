#!/usr/bin/env bash
# Trainings on ranks of a real MPI library, on one machine: 1, 2, 3 and 4 ranks give the bytes of one process; a rank that is killed ends
# the others, and the run goes on with another number of ranks; SIGTERM saves and ends all with 75. Prints what the sum costs.
#
#   RTC=target/mpi/rtc tests/mpi.sh
#
# MPIRUN is the launcher (default: that of Open MPI, with more ranks than cores and as root; MPIRUN='srun --mpi=pmi2 --overcommit' with
# PARTS=families is that of Slurm), UPDATES the length of a run (50), PARTS what
# is done (families kill term speed).
set -euo pipefail

rtc=$(realpath "${RTC:-target/mpi/rtc}")
[ -x "$rtc" ] || { echo "there is no program $rtc: run tools/build-mpi.sh" >&2; exit 2; }
read -ra mpirun <<< "${MPIRUN:-mpirun.openmpi --oversubscribe --allow-run-as-root}"
updates=${UPDATES:-50}
parts=${PARTS:-families kill term speed}
place=$(mktemp -d "${TMPDIR:-/tmp}/rtc_mpi_XXXXXX")
trap 'rm -rf "$place"' EXIT
cd "$place"

fail() { echo "FAILED: $*" >&2; exit 1; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
wanted() { [[ " $parts " == *" $1 "* ]]; }

files=(metrics.jsonl results.json answers.json spec.rt experiment.yaml
    checkpoints/{last,best}/{weights.safetensors,optimiser.safetensors,state.json})
same() { # RUN RUN
    for file in "${files[@]}"; do
        cmp "runs/$1/$file" "runs/$2/$file" || fail "$file of $1 and $2 differ"
    done
}

# A model with the experiment that suits it, few updates, and the micro-batches of four ranks.
edits=(--with "max_steps=$updates" --with "evaluate_every=$((updates / 2))" --with log_every=1 --with batch.accumulate=4)
families=(
    "gut --experiment listops_smoke --with task.sizes.train=800 --with task.sizes.dev=64 --with task.sizes.test=64 --with evaluate=[test]"
    "gutlb --experiment listops_smoke --with task.sizes.train=800 --with task.sizes.dev=64 --with task.sizes.test=64 --with evaluate=[test]"
    "ebt_grc --experiment listops_trees_smoke --with task.sizes.train=800 --with task.sizes.dev=64 --with task.sizes.test=64 --with evaluate=[test]"
    "regular_gpt --experiment regular_parity_smoke --with task.sizes.dev=64 --with task.sizes.test=64 --with evaluate=[test]"
    "looped:deep_head --experiment looped_parity_smoke --with task.sizes.dev=64 --with task.sizes.test=64 --with evaluate=[test]"
)

if wanted families; then
    for family in "${families[@]}"; do
        read -ra words <<< "$family"
        name=${words[0]/:/.}
        train=("$rtc" train "${words[@]}" "${edits[@]}" --quiet --threads 1)
        "${train[@]}" --run "$name-alone" > /dev/null
        for ranks in 1 2 3 4; do
            "${mpirun[@]}" -n "$ranks" "${train[@]}" --run "$name-$ranks" > "$name-$ranks.txt" 2> "$name-$ranks.log" ||
                { cat "$name-$ranks.log"; fail "$name on $ranks ranks"; }
            same "$name-alone" "$name-$ranks"
        done
        echo "$name: the bytes of one process on 1, 2, 3 and 4 ranks"
    done
fi

# Longer than it takes to look for a process.
read -ra gut <<< "${families[0]}"
long=("$rtc" train "${gut[@]}" "${edits[@]}" --with "max_steps=$((updates * 2))" --with epochs=1000
    --with "evaluate_every=$((updates / 5))")
saved() { # RUN: waits for its first checkpoint
    for ((n = 0; n < 600; n++)); do
        [ -e "runs/$1/checkpoints/last/manifest.json" ] && return
        sleep 0.1
    done
    fail "$1 saves nothing"
}
ranks_of() { pgrep -P "$1" -x rtc || { for child in $(pgrep -P "$1"); do pgrep -P "$child" -x rtc || true; done; }; }
ended() { # PID: waits for the end of a process, not for ever
    for ((n = 0; n < 600; n++)); do
        kill -0 "$1" 2> /dev/null || return 0
        sleep 0.1
    done
    fail "the other ranks go on"
}

if wanted kill || wanted term; then
    "${long[@]}" --quiet --threads 2 --run whole > /dev/null
fi
if wanted kill; then
    "${mpirun[@]}" -n 4 "${long[@]}" --threads 1 --run killed > killed.txt 2>&1 &
    launcher=$!
    saved killed
    kill -KILL "$(ranks_of "$launcher" | sed -n 3p)"
    start=$(milliseconds)
    ended "$launcher"
    took=$(($(milliseconds) - start))
    wait "$launcher" && fail "a killed rank is no success"
    "${mpirun[@]}" -n 2 "${long[@]}" --threads 1 --run killed > goes_on.txt 2>&1 || { cat goes_on.txt; fail "it does not go on"; }
    grep -q "going on after update" goes_on.txt || fail "it began anew"
    same whole killed
    echo "kill: 4 ranks end $took ms after one was killed; 2 ranks go on to the bytes of one process"
fi
if wanted term; then
    "${mpirun[@]}" -n 4 "${long[@]}" --threads 1 --run stopped > stopped.txt 2>&1 &
    launcher=$!
    saved stopped
    # As srun does, and mpirun itself before it kills: every rank gets the signal.
    ranks_of "$launcher" | xargs kill -TERM
    code=0
    wait "$launcher" || code=$?
    [ "$code" = 75 ] || { cat stopped.txt; fail "the ranks end with $code after SIGTERM"; }
    grep -q "stopped after update" stopped.txt || fail "nothing is said of the stop"
    "${mpirun[@]}" -n 3 "${long[@]}" --threads 1 --quiet --run stopped > /dev/null 2>&1
    same whole stopped
    echo "term: 4 ranks save and end with 75, 3 ranks go on to the bytes of one process"
    "${mpirun[@]}" -n 2 "${long[@]}" --threads 1 --run launcher > launcher.txt 2>&1 &
    launcher=$!
    saved launcher
    kill -TERM "$launcher"
    code=0
    wait "$launcher" || code=$?
    said=$(grep -c "stopped after update" launcher.txt || true)
    "${mpirun[@]}" -n 1 "${long[@]}" --threads 1 --quiet --run launcher > /dev/null 2>&1
    same whole launcher
    echo "term: SIGTERM to the launcher ends it with $code, $said saved; the run goes on to the same bytes"
fi
if wanted speed; then
    timed() { # NAME COMMAND...
        local name=$1 start
        shift
        start=$(milliseconds)
        "$@" > "$name.txt" 2>&1
        echo "$name: $(($(milliseconds) - start)) ms for $((updates * 2)) updates; $(grep -h 'ranks: ' "$name.txt" || true)"
    }
    timed one_thread "${long[@]}" --threads 1 --run speed1
    timed two_threads "${long[@]}" --threads 2 --run speed2
    timed two_ranks "${mpirun[@]}" -n 2 "${long[@]}" --threads 1 --run speed3
fi
echo "all as it should be"
