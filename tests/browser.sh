#!/usr/bin/env bash
# The page of a report in a browser: pointer, keys, tables, filter, both themes, a phone, scripts turned off, and --watch.
# Needs node and npm; the browser comes from a package of npm, into a temporary folder. RTC is the program (target/debug/rtc).
# tests/browser.sh [FOLDER]   pictures of the page into FOLDER
set -euo pipefail
rtc=$(realpath "${RTC:-$(dirname "$0")/../target/debug/rtc}")
script=$(realpath "$(dirname "$0")/browser.mjs")
shots=$(realpath -m "${1:-$(mktemp -d)}")
for tool in node npm; do
    command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 0; }
done
folder=$(mktemp -d)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit playwright-core@1 @sparticuz/chromium@147 > npm.log 2>&1 \
    || { echo "skipped: npm gives no browser: $(tail -n 1 npm.log)"; exit 0; }

cat > tiny.rt << 'SPEC'
/// A gated model that halts.
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
SPEC
cat > grid.yaml << 'EXPERIMENT'
task:
  name: listops
  options: { train_length: 30, depth: 6, arguments: 3 }
  sizes: { train: 1600, dev: 60, test: 100, 200-300: 20 }
optimiser: { learning_rate: 0.003, clip: 1 }
schedule: { kind: constant, warmup: 5 }
batch: { size: 16 }
epochs: 2
log_every: 1
evaluate_every: 40
evaluate: [test, 200-300]
seeds: [1, 2, 3]
compare: [tiny.rt, "tiny.rt:no_gate"]
EXPERIMENT
"$rtc" --quiet ablate grid.yaml > /dev/null
"$rtc" --quiet report grid -o grid.html > /dev/null
"$rtc" --quiet report runs/grid/tiny/seed1 -o run.html > /dev/null
"$rtc" --quiet report grid --watch > address &
server=$!
until [ -s address ]; do kill -0 "$server"; sleep 0.1; done
mkdir -p "$shots"
RTC=$rtc BROWSER=$folder node "$script" "$folder" "$(cat address)" "$shots"
kill -INT "$server"
wait "$server" || { echo "--watch ended with $?"; exit 1; }
echo "pictures in $shots"
