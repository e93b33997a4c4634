#!/usr/bin/env bash
# The extension of `editors/vscode` in a real VS Code (code-server, the same program served to a browser): packed, installed, and
# driven with the keys that a user presses. Needs node 20, npm, a C++ compiler and libkrb5-dev for the native modules of VS Code;
# code-server and the browser come from npm. RTC is the program (target/debug/rtc); CODE names a folder for code-server that is
# kept, since it takes some minutes to build.
#
#   tests/vscode.sh [FOLDER]   pictures into FOLDER
set -euo pipefail
rtc=$(realpath "${RTC:-$(dirname "$0")/../target/debug/rtc}")
script=$(realpath "$(dirname "$0")/vscode.mjs")
extension=$(realpath "$(dirname "$0")/../editors/vscode")
shots=$(realpath -m "${1:-$(mktemp -d)}")
for tool in node npm c++; do
    command -v "$tool" > /dev/null || { echo "skipped: there is no $tool"; exit 0; }
done
folder=$(mktemp -d)
# The editor has processes of its own, which outlive their parent for a while.
trap '[ -z "${server:-}" ] || kill -- "-$server" 2> /dev/null || true; sleep 1; rm -rf "$folder"' EXIT
code=$(realpath -m "${CODE:-$folder/code}")
mkdir -p "$code" "$shots"
if [ ! -e "$code/built" ]; then
    # The headers of node lie beside it, where it has them.
    home=$(dirname "$(dirname "$(realpath "$(command -v node)")")")
    [ ! -d "$home/include/node" ] || export npm_config_nodedir=$home
    export npm_config_yes=true npm_config_unsafe_perm=true
    # ripgrep would be fetched from elsewhere, unless its folder is there; only a search through files needs it.
    (cd "$code" && npm install --no-fund --no-audit --ignore-scripts code-server@4.100.3 &&
        cd node_modules/code-server/lib/vscode &&
        npm install --ignore-scripts --omit=dev && (cd extensions && npm install --ignore-scripts --omit=dev) &&
        mkdir -p node_modules/@vscode/ripgrep/bin && npm rebuild &&
        cd "$code" && npm rebuild && touch built) > "$code/npm.log" 2>&1 \
        || { echo "skipped: npm builds no code-server: $(grep -m 1 -i error "$code/npm.log")"; exit 0; }
fi
cd "$folder"
npm install --silent --no-fund --no-audit playwright-core@1 @sparticuz/chromium@147 > npm.log 2>&1 \
    || { echo "skipped: npm gives no browser: $(tail -n 1 npm.log)"; exit 0; }

cp -r "$extension" extension
(cd extension && npm install --silent --no-fund --no-audit > ../npm.log 2>&1 \
    && npx --yes @vscode/vsce package --allow-missing-repository --out ../rtc.vsix > ../vsce.log 2>&1) \
    || { cat npm.log vsce.log; exit 1; }
vscode=("$code/node_modules/.bin/code-server" --user-data-dir "$folder/data" --extensions-dir "$folder/extensions")
mkdir -p data/User work
cat > data/User/settings.json << SETTINGS
{
  "rtc.path": "$rtc", "security.workspace.trust.enabled": false, "workbench.startupEditor": "none",
  "editor.minimap.enabled": false, "files.autoSave": "off", "telemetry.telemetryLevel": "off"
}
SETTINGS
cat > work/tiny.rt << 'SPEC'
/// A gated model that halts.
model tiny {
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 3
        gate mlp { hidden: 16 }
        attend self { heads: 2, position: xpos }
        feedforward { hiden: 16 }
    }
    readout end
}

variant no_gate of tiny { gate none }
SPEC
"${vscode[@]}" --install-extension rtc.vsix > install.log 2>&1 || { cat install.log; exit 1; }
setsid "${vscode[@]}" --auth none --bind-addr 127.0.0.1:0 --disable-telemetry --disable-update-check work > server.log 2>&1 &
server=$!
until grep -qs "HTTP server listening on" server.log; do kill -0 "$server" || { cat server.log; exit 1; }; sleep 0.2; done
address=$(sed -n 's/.*HTTP server listening on \(http[^ ]*\).*/\1/p' server.log | head -1)
BROWSER=$folder node "$script" "${address%/}/?folder=$folder/work" "$folder/work/tiny.rt" "$shots"
echo "pictures in $shots"
