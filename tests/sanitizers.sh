#!/usr/bin/env bash
# What the compiler can't prove of `unsafe`: kernels, arena, packing and gathers under checkers of memory and of threads.
#
#   tests/sanitizers.sh [miri|address|thread ..]     all three unless given
#
# - miri interprets the arena's tests and small kernels: reads of what nobody wrote, aliasing, leaks.
# - address is AddressSanitizer on all tests of kernels and arena: reads and writes outside of an array.
# - thread is ThreadSanitizer on them with four threads, with a standard library that it sees into: races.
#
# Needs a nightly compiler (NIGHTLY names another one) with the components miri and rust-src, and says so where it has not.
set -euo pipefail

nightly=${NIGHTLY:-nightly}
cd "$(dirname "$0")/.."
kinds=("$@")
[ $# -gt 0 ] || kinds=(miri address thread)
rustc "+$nightly" --version || { echo "there is no toolchain $nightly: rustup toolchain install $nightly" >&2; exit 2; }
for component in miri rust-src; do
    rustup "+$nightly" component list --installed | grep -q "^$component" ||
        { echo "component $component is missing: rustup component add --toolchain $nightly $component" >&2; exit 2; }
done
host=$(rustc "+$nightly" -vV | sed -n 's/^host: //p')
# Rayon keeps its threads until the process ends, and parks them by an epoch that Miri reports as a leak.
tests=(--locked -p rtc-exec -p rtc-kernel --test it)

for kind in "${kinds[@]}"; do
    echo "== $kind"
    case $kind in
        miri)
            # The clock and the environment are asked for; no vectors beyond SSE are offered, so kernels take their plain form. Sines
            # get the last bits that they have elsewhere, and no random ones.
            export MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-deterministic-floats"
            cargo "+$nightly" miri test --locked -p rtc-exec --test it -- arena::
            RAYON_NUM_THREADS=2 \
                cargo "+$nightly" miri test --locked -p rtc-kernel --test it -- moving:: top:: pool::
            ;;
        address)
            RUSTFLAGS="-Zsanitizer=address" CARGO_TARGET_DIR=target/address \
                cargo "+$nightly" test --target "$host" "${tests[@]}"
            ;;
        thread)
            RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR=target/thread RAYON_NUM_THREADS=4 \
                cargo "+$nightly" test -Zbuild-std --target "$host" "${tests[@]}"
            ;;
        *) echo "usage: tests/sanitizers.sh [miri|address|thread ..]" >&2; exit 2 ;;
    esac
done
