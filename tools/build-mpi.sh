#!/usr/bin/env bash
# Builds the program for trainings on several ranks, with the MPI library of this machine.
#
#   tools/build-mpi.sh [OUT]           OUT/rtc; target/mpi without OUT
#   tools/build-mpi.sh --mpich [OUT]   the same with MPICH in the place of Open MPI
#
# Missing Debian packages are installed: an MPI library with its headers, and libclang, with which they are read. FEATURES names further
# features, as in FEATURES=mpi,cuda. See docs/data_parallel.md.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

library=openmpi
packages=(libopenmpi-dev openmpi-bin libclang-dev)
if [[ "${1:-}" == --mpich ]]; then
    library=mpich
    packages=(libmpich-dev mpich libclang-dev)
    shift
fi
compiler="$(command -v "mpicc.$library" || true)"
if [[ -z "$compiler" ]] || ! ls /usr/lib/llvm-*/lib/libclang* > /dev/null 2>&1; then
    sudo=""
    [[ "$(id -u)" -eq 0 ]] || sudo="sudo"
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" > /dev/null
    compiler="$(command -v "mpicc.$library")"
fi

out="$(mkdir -p "${1:-$root/target/mpi}" && cd "${1:-$root/target/mpi}" && pwd)"
cd "$root"
# A library of its own for each: what was built for one can't be linked with the other.
MPICC="$compiler" cargo build --release --locked -p rtc --features "${FEATURES:-mpi}" \
    --target-dir "${CARGO_TARGET_DIR:-$root/target}/$library"
strip -o "$out/rtc" "${CARGO_TARGET_DIR:-$root/target}/$library/release/rtc"
echo "$out/rtc: $(du -h "$out/rtc" | cut -f1)"
echo "linked: $(readelf -d "$out/rtc" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | paste -sd' ')"
