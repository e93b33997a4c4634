#!/usr/bin/env bash
# Builds the program for a machine with a GPU: one file, which starts on any machine of this kind.
#
#   tools/build-cuda.sh [OUT]             OUT/rtc, and what it needs; target/cuda without OUT
#   tools/build-cuda.sh --libraries DIR   NVRTC and cuBLASLt from Python wheels, for machines without a toolkit
#   tools/build-cuda.sh --check DIR       nvcc from Python wheels compiles all kernels for 8.0, 8.9 and 9.0
#
# Needs cargo; the last two need python3 with venv and a package index. See docs/cuda.md.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# Wheels into a folder. Versions are fixed: the parts of a compiler must be of one release, and not newer than the driver.
wheels() {
    local folder="$1"
    shift
    [[ -x "$folder/bin/python" ]] || python3 -m venv "$folder"
    "$folder/bin/pip" install --quiet "$@"
    echo "$folder"/lib/python3*/site-packages/nvidia/cu13
}

case "${1:-}" in
    --libraries)
        found="$(wheels "${2:?a folder}" nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.0.2.14)"
        echo "export LD_LIBRARY_PATH=$found/lib"
        exit
        ;;
    --check)
        found="$(wheels "${2:?a folder}" nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
            nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85)"
        cd "$root/runtime/cuda/src/kernels"
        # In the order of `KERNELS` in runtime/cuda/src/sources.rs.
        cat base.cu expression.cu attend.cu rows.cu pool.cu unit.cu attention.cu scan.cu crvnn_om_ops.cu beam.cu loss.cu > "$2/kernels.cu"
        for capability in 80 89 90; do
            "$found/bin/nvcc" -DREAL=float "-arch=sm_$capability" -cubin -Xptxas -v \
                -o "$2/kernels.cubin" "$2/kernels.cu" 2> "$2/kernels.log" || { cat "$2/kernels.log"; exit 1; }
            echo "sm_$capability: $(grep -c 'Compiling entry function' "$2/kernels.log") kernels," \
                "$(grep -c ' [1-9][0-9]* bytes spill' "$2/kernels.log" || true) with registers in memory"
        done
        exit
        ;;
esac

out="${1:-$root/target/cuda}"
cd "$root"
cargo build --release --locked -p rtc
mkdir -p "$out"
strip -o "$out/rtc" "${CARGO_TARGET_DIR:-target}/release/rtc"
echo "$out/rtc: $(du -h "$out/rtc" | cut -f1)"
echo "linked: $(readelf -d "$out/rtc" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | paste -sd' ')"
echo "C library: at least $(objdump -T "$out/rtc" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)"
echo "opened for --device cuda: libcuda.so.1, libnvrtc.so.13 or .12, libcublasLt.so.13 or .12"
