#!/usr/bin/env bash
# Runs a command with libraries that pretend to be a GPU (pretend.cpp): what rtc does from its command line to a checkpoint, on
# a machine that has none. For instance
#
#   tests/gpu/pretend.sh target/release/rtc train specs/gutlb.rt --device cuda --max-steps 5
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
compiler="${CXX:-c++}"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT

# One file by three names, so that the loader has it once: a product is captured where its stream is.
"$compiler" -std=c++17 -O2 -w -shared -fPIC -DSHIM="\"$here/../src/emulated/shim.h\"" -DCXX="\"$compiler\"" \
    -o "$folder/libcuda.so.1" "$here/pretend.cpp" -ldl
ln -s libcuda.so.1 "$folder/libnvrtc.so.13"
ln -s libcuda.so.1 "$folder/libcublasLt.so.13"
# Their "machine code" is a path, which is worth nothing afterwards.
export XDG_CACHE_HOME="$folder/cache" TMPDIR="$folder"
LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
