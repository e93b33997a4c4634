#!/usr/bin/env bash
# Grids on clusters with real engines: a grid of 12 cells is trained by many processes that are killed, by Slurm and by HyperQueue,
# and compared with the same grid trained by one process, byte by byte: table, metrics, results and weights.
#
#   RTC=target/release/rtc tests/clusters.sh [processes] [slurm] [hyperqueue]      all of them unless named
#
# `slurm` installs Debian's packages where they are missing, and needs to be root for that and for the daemons; `hyperqueue` installs the
# Python package into an environment of its own. What can't be done here is said in a line that begins with `skipped:`.
# The moments of the kills come from SEED (default 1).
set -euo pipefail

here=$(realpath "$(dirname "$0")")
rtc=${RTC:-${CARGO_TARGET_DIR:-target}/release/rtc}
[ -x "$rtc" ] || { echo "there is no program $rtc: run cargo build --release, or set RTC" >&2; exit 2; }
rtc=$(realpath "$rtc")
RANDOM=${SEED:-1}
parts=("$@")
[ "${#parts[@]}" -gt 0 ] || parts=(processes slurm hyperqueue)
place=$(mktemp -d "${TMPDIR:-/tmp}/rtc-clusters-XXXXXX")
started=()

finish() {
    for pid in "${started[@]}"; do kill "$pid" 2> /dev/null || true; done
    wait 2> /dev/null || true
    # A job may be writing its last line.
    if [ -n "${KEEP:-}" ]; then echo "kept: $place"; else rm -rf "$place" || { sleep 1; rm -rf "$place"; }; fi
}
trap finish EXIT
cd "$place"

cat > tiny.rt <<'RT'
model tiny {
    dropout: 0.1
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 3
        halt global { sees: transition, threshold: 0.999, cost: 0.1 }
        gate mlp { hidden: 16 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}

variant no_gate of tiny { gate none }
RT
cat > grid.yaml <<YAML
task:
  name: listops
  options: { train_length: 12, held_out_length: 12, depth: 4, arguments: 3 }
  sizes: { train: 160, dev: 32, test: 32 }
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: constant, warmup: 5 }
batch: { size: 16 }
epochs: ${EPOCHS:-400}
log_every: 1
evaluate: [test]
seeds: [1, 2, 3]
compare:
  - tiny
  - tiny:no_gate
  - { spec: tiny, name: deep, set: [depthwise.depth=4] }
  - { spec: tiny, name: wide, set: [feedforward.hidden=32] }
YAML

ablate=("$rtc" ablate grid.yaml --quiet)

# Compares a grid with the one of one process.
same() {
    local grid=$1 table=$2 cells=0 cell file
    cmp whole.txt "$table" || { echo "the table differs" >&2; exit 1; }
    for cell in whole/grid/*/seed*; do
        cell=${cell#whole/grid/}
        for file in metrics.jsonl results.json spec.rt experiment.yaml \
            checkpoints/{last,best}/{weights.safetensors,optimiser.safetensors}; do
            cmp "whole/grid/$cell/$file" "$grid/$cell/$file" || { echo "$cell/$file differs" >&2; exit 1; }
        done
        # The name of a cell that was begun twice has the hash behind it.
        [ "$(ls -d "$grid/$cell"*[!0-9]* 2> /dev/null | wc -l)" = 0 ] || { echo "$cell has a second folder" >&2; exit 1; }
        cells=$((cells + 1))
    done
    [ "$cells" = 12 ] || { echo "$cells cells instead of 12" >&2; exit 1; }
}

# How many claims were made on the cells of a grid.
claims() { find "$1/claims" -name '*.json' | wc -l; }

"${ablate[@]}" --runs whole --jobs 1 > whole.txt
echo "whole: 12 cells by one process"

processes() {
    local count=${COUNT:-40} kills=${KILLS:-10} pids=() killed=0 n pid finished
    for ((n = 0; n < count; n++)); do
        "$rtc" ablate grid.yaml --runs shared --jobs 1 --lease 5 > "table.$n" 2> "log.$n" &
        pids+=($!)
    done
    until ls shared/grid/*/seed*/metrics.jsonl > /dev/null 2>&1; do sleep 0.05; done
    # The processes that have a cell, at random moments of their trainings.
    for ((n = 0; n < 2000 && killed < kills; n++)); do
        sleep "0.$((RANDOM % 3))$((RANDOM % 10))"
        pid=$(grep -l '"released":false' shared/grid/claims/*/*.json 2> /dev/null | shuf -n 1 --random-source=<(yes "$RANDOM") |
            xargs -r sed -n 's/.*"pid":\([0-9]*\).*/\1/p')
        if [ -n "$pid" ] && [[ " ${pids[*]} " == *" $pid "* ]] && kill -KILL "$pid" 2> /dev/null; then killed=$((killed + 1)); fi
        [ "$(ls shared/grid/*/seed*/results.json 2> /dev/null | wc -l)" -lt 12 ] || break
    done
    local failed=0 ended=0 finished
    for ((n = 0; n < count; n++)); do
        local code=0
        wait "${pids[n]}" || code=$?
        if [ "$code" = 137 ]; then continue; fi
        if [ "$code" != 0 ]; then echo "process $n ended with $code"; tail -3 "log.$n"; failed=1; fi
        cmp whole.txt "table.$n"
        ended=$((ended + 1))
    done
    [ "$failed" = 0 ]
    [ "$killed" = "$kills" ] || { echo "only $killed were killed: the grid is too short, set EPOCHS" >&2; exit 1; }
    same shared/grid <("$rtc" ablate grid.yaml --quiet --runs shared --table)
    finished=$(cat log.* | grep -c ': finished in' || true)
    [ "$(grep -ho '\] .*: finished in' log.* | sort | uniq -d | wc -l)" = 0 ] || { echo "a cell was finished twice" >&2; exit 1; }
    echo "processes: $count processes, $killed of them killed while they trained, $ended ended with the same table;" \
        "$finished cells said finished once, $(claims shared/grid) claims, the same bytes"
}

# A Slurm of one machine with two nodes.
slurm() {
    for program in slurmctld slurmd sbatch munged; do
        if ! command -v "$program" > /dev/null && ! [ -x "/usr/sbin/$program" ]; then
            if [ "$(id -u)" != 0 ] || ! apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge > apt.log 2>&1; then
                echo "skipped: slurm: there is no $program, and Debian's packages can't be installed"
                return
            fi
        fi
    done
    if [ "$(id -u)" != 0 ]; then echo "skipped: slurm: its daemons need root here"; return; fi
    local host base=${PORT:-17000} memory node code
    host=$(hostname -s)
    memory=$(awk '/MemTotal/ { print int($2 / 1024 / 3) }' /proc/meminfo)
    mkdir -p slurm/state slurm/spool munge
    dd if=/dev/urandom of=munge/key bs=64 count=1 2> /dev/null
    chmod 0400 munge/key
    chmod 0755 . munge
    munged --force --key-file "$place/munge/key" --socket "$place/munge/socket" --pid-file "$place/munge/pid" \
        --log-file "$place/munge/log" --seed-file "$place/munge/seed" > munge/out 2>&1 ||
        { cat munge/out; echo "skipped: slurm: munged does not start here"; return; }
    started+=("$(cat munge/pid)")
    cat > slurm/slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$place/munge/socket
CredType=cred/munge
SlurmctldPort=$base
SlurmctldPidFile=$place/slurm/ctld.pid
SlurmdPidFile=$place/slurm/%n.pid
SlurmctldLogFile=$place/slurm/ctld.log
SlurmdLogFile=$place/slurm/%n.log
StateSaveLocation=$place/slurm/state
SlurmdSpoolDir=$place/slurm/spool/%n
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdTimeout=10
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
KillWait=5
JobRequeue=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=2 RealMemory=$memory
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=2 RealMemory=$memory
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
    export SLURM_CONF=$place/slurm/slurm.conf
    export PATH=$PATH:/usr/sbin
    slurmctld -D > slurm/ctld.out 2>&1 &
    started+=($!)
    start_node() { mkdir -p "slurm/spool/$1"; slurmd -N "$1" -D > "slurm/$1.out" 2>&1 & started+=($!); declare -g "node_$1=$!"; }
    start_node n1
    start_node n2
    for ((n = 0; n < 100; n++)); do
        [ "$(sinfo -h -N -t idle -o %N 2> /dev/null | sort -u | wc -l)" = 2 ] && break
        sleep 0.5
    done
    if [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" != 2 ]; then
        tail -5 slurm/*.log slurm/*.out
        echo "skipped: slurm: its nodes do not come up here"
        return
    fi
    # Long enough that nodes die under cells.
    "$rtc" ablate grid.yaml --runs slurmed --lease 10 --launcher slurm --time 30 --mem 300M > slurmed.txt 2> slurmed.log &
    local launcher=$! requeued=0
    until [ "$(ls slurmed/grid/*/seed*/metrics.jsonl 2> /dev/null | wc -l)" -ge 2 ]; do sleep 0.1; done
    # A task is queued again by hand on one node, and the other node is the one that dies.
    read -r job other < <(squeue -h -t R -o '%A %N' | head -n 1) || true
    if [ -n "${job:-}" ] && scontrol requeue "$job"; then requeued=1; fi
    node=n1
    [ "${other:-}" != n1 ] || node=n2
    # A node dies with all that runs on it.
    local dead=node_$node
    kill -KILL "${!dead}"
    # Its steps first, which would tell the controller of the end of a job.
    local inside pid
    inside=$(grep -lzx "SLURMD_NODENAME=$node" /proc/[0-9]*/environ 2> /dev/null | cut -d / -f 3 || true)
    for pid in $inside; do
        parent=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status" 2> /dev/null || true)
        if [ "$(cat "/proc/${parent:-0}/comm" 2> /dev/null)" = slurmstepd ]; then kill -KILL "$parent" 2> /dev/null || true; fi
    done
    for pid in $inside; do kill -KILL "$pid" 2> /dev/null || true; done
    echo "slurm: node $node killed with its cells"
    # Longer than the controller waits for a node.
    sleep 15
    start_node "$node"
    # Jobs that are queued again wait two minutes unless they are asked not to.
    while [ -d "/proc/$launcher" ]; do
        for job in $(squeue -h -t PD -o %A); do scontrol update JobId="$job" StartTime=now 2> /dev/null || true; done
        sleep 2
    done
    code=0
    wait "$launcher" || code=$?
    [ "$code" = 0 ] || { tail -5 slurmed.log slurmed/grid/launch/*.out; echo "the launcher ended with $code" >&2; exit 1; }
    same slurmed/grid slurmed.txt
    echo "slurm: a job array of 12 cells on two nodes, one killed and started again, $requeued task requeued by hand;" \
        "$(claims slurmed/grid) claims, the same bytes"
}

# HyperQueue's server and workers, of its Python package, which has no program `hq`: a stand-in of that name submits what the launcher
# asks for through the package.
hyperqueue() {
    if ! python3 -m venv hq > hq.log 2>&1 || ! hq/bin/pip install -q hyperqueue >> hq.log 2>&1; then
        echo "skipped: hyperqueue: its Python package can't be installed"
        return
    fi
    mkdir -p bin
    printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$place/hq/bin/python" "$here/hq_engine.py" > bin/hq
    chmod +x bin/hq
    PATH=$place/bin:$PATH "$rtc" ablate grid.yaml --runs queued --lease 10 --launcher hyperqueue > queued.txt 2> queued.log ||
        { tail -5 queued.log; exit 1; }
    same queued/grid queued.txt
    echo "hyperqueue: $(sed -n 's/.*hq \(HyperQueue.*\)/\1/p' queued.log | sort -u | paste -sd ' '), $(claims queued/grid) claims, the same bytes"
}

for part in "${parts[@]}"; do
    case $part in
        processes | slurm | hyperqueue) "$part" ;;
        *) echo "there is no part $part" >&2; exit 2 ;;
    esac
done
