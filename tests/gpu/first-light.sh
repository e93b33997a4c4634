#!/usr/bin/env bash
# The first minutes on a GPU, in two short runs. Run it in the root of a checkout, on a machine with cargo.
#
#   tests/gpu/first-light.sh pack     builds what runs there into .gpu (not in git), and prints the two runs
#   tests/gpu/first-light.sh dry      runs the same here on a driver that does nothing: every part starts, and no number means anything
#
# `pack` needs cargo. With a C++ compiler, python3 with venv and a package index it compiles the kernels of the models beforehand (NVRTC
# 13.0, sm_90); without them they are compiled there. It changes nothing outside of .gpu and .git/info/exclude.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(git rev-parse --show-toplevel)"
cd "$root"
[[ -f tests/gpu/run.sh ]] || { echo "this is not the root of rtc" >&2; exit 2; }

# A driver that does nothing, and NVIDIA's compiler from its wheel: the folders for LD_LIBRARY_PATH.
stand_in() {
    local folder="$root/.gpu/stand-in" compiler="${CXX:-c++}"
    mkdir -p "$folder/lib"
    "$compiler" -std=c++17 -O2 -w -shared -fPIC -o "$folder/lib/libcuda.so.1" "$here/pretend.cpp" -ldl
    ln -sf libcuda.so.1 "$folder/lib/libcublasLt.so.13"
    [[ -x "$folder/venv/bin/python" ]] || python3 -m venv "$folder/venv" > /dev/null
    "$folder/venv/bin/pip" install --quiet nvidia-cuda-nvrtc==13.0.88
    echo "$folder/lib:$(echo "$folder"/venv/lib/python3*/site-packages/nvidia/cu13/lib)"
}

case "${1:-}" in
    pack)
        exclude="$(git rev-parse --git-path info/exclude)"
        mkdir -p "$(dirname "$exclude")"
        grep -qxF /.gpu/ "$exclude" 2> /dev/null || echo /.gpu/ >> "$exclude"
        mkdir -p .gpu/peers
        "$here/run.sh" --pack .gpu/bin
        # The image has compute-sanitizer: a packed one takes 36 MiB.
        rm -rf .gpu/bin/compute-sanitizer
        cp "$here/on-device.sh" .gpu/device.sh
        cp "$root/../shared/peers/recurrent_torch.py" .gpu/peers/ 2> /dev/null || echo "no peers: rtc will be timed alone"
        if path="$(stand_in 2> .gpu/stand-in.log)"; then
            echo "kernels of the models are made ready (NVRTC 13.0, sm_90)"
            DRY="$path" OUT="$root/.gpu/warm" ONLY=start,agree,times bash .gpu/device.sh 900 > .gpu/warm.log 2>&1 || true
            rm -rf .gpu/warm
        else
            echo "kernels will be compiled there: $(tail -n 1 .gpu/stand-in.log)"
        fi
        # What stays here does not travel.
        rm -rf .gpu/carry && mkdir .gpu/carry && cp -r .gpu/peers .gpu/device.sh .gpu/carry/
        tar -C .gpu/bin -czf .gpu/carry/bin.tar.gz .
        [[ ! -d .gpu/cache ]] || cp -r .gpu/cache .gpu/carry/
        tree=$(git ls-files -z --cached --others --exclude-standard | xargs -0 du -cb --no-dereference 2> /dev/null | tail -n 1 | cut -f1)
        carried=$(du -sb .gpu/carry | cut -f1)
        printf 'tree %d MiB, carried %d MiB, limit 64\n' $((tree >> 20)) $((carried >> 20))
        (( tree + carried < 62 << 20 )) || { echo "too much: leave something out" >&2; exit 1; }
        cat << 'CALLS'

On the machine with the GPU, in the root of a copy of this tree with the folder .gpu/carry (OUT names a folder for results):

1. bash .gpu/carry/device.sh 420       (limit 450 s)
   It ends after a minute if nothing works at all; then mend the fault, `first-light.sh pack` again, and repeat.
2. After reading summary.txt in OUT, with the time that is left:
   ONLY=times,compiled,profile,epoch bash .gpu/carry/device.sh 200       (limit 230 s)

Results: summary.txt (all lines that count), logs.tar.gz (everything in full, with the benches' JSON). Figures go to docs/lab/gpu.md.
CALLS
        ;;
    dry)
        [[ -d .gpu/carry ]] || { echo "first-light.sh pack comes before" >&2; exit 2; }
        path="$(stand_in 2> .gpu/stand-in.log)"
        DRY="$path" OUT="$root/.gpu/dry" bash .gpu/carry/device.sh "${2:-300}"
        ;;
    *) sed -n '2,9p' "$0" && exit 2 ;;
esac
