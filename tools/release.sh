#!/usr/bin/env bash
# The release program, the same bytes wherever it is built with the same compiler: no path of this machine and no date is in it. Beside it
# its bill of materials (CycloneDX, where cargo-cyclonedx is installed) and the checksums of both.
#
#   tools/release.sh [FOLDER]      into FOLDER (default: release)
#   tools/release.sh --twice       builds it twice, in two folders, and compares the bytes; 10 to 40 minutes
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

# The program from the sources in $1, built in $1/target.
build() {
    local cargo_home=${CARGO_HOME:-$HOME/.cargo}
    local sysroot
    sysroot=$(rustc --print sysroot)
    (cd "$1" && RUSTFLAGS="--remap-path-prefix=$1=/rtc --remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$sysroot=/rust" \
        CFLAGS="-ffile-prefix-map=$1=/rtc -ffile-prefix-map=$cargo_home=/cargo" \
        CARGO_TARGET_DIR="$1/target" CARGO_INCREMENTAL=0 SOURCE_DATE_EPOCH=0 cargo build --release --locked -p rtc)
}

# The bill of materials of the sources in $1, into the folder $2.
bill() {
    if ! cargo cyclonedx --version > /dev/null 2>&1; then
        echo "no bill of materials: cargo-cyclonedx is not installed" >&2
        return
    fi
    (cd "$1" && SOURCE_DATE_EPOCH=0 cargo cyclonedx --quiet --format json --spec-version 1.5 --manifest-path cli/Cargo.toml \
        --override-filename rtc-bill)
    sed "s#file://$1#file:///rtc#g" "$1/cli/rtc-bill.json" > "$2/rtc.cdx.json"
    find "$1" -maxdepth 2 -name rtc-bill.json -delete # one for every crate of the workspace
}

if [ "${1:-}" = --twice ]; then
    place=$(mktemp -d "${TMPDIR:-/tmp}/rtc-release-XXXXXX")
    trap 'rm -rf "$place"' EXIT
    for copy in one another-folder; do
        mkdir "$place/$copy"
        git -C "$here" ls-files -z | (cd "$here" && tar --null --files-from - -cf -) | tar -C "$place/$copy" -xf -
        mkdir "$place/of-$copy"
        bill "$place/$copy" "$place/of-$copy"
        build "$place/$copy"
        mv "$place/$copy/target/release/rtc" "$place/of-$copy/rtc"
        rm -rf "${place:?}/$copy"
    done
    (cd "$place" && sha256sum of-*/*)
    diff -r "$place/of-one" "$place/of-another-folder"
    echo "the same bytes"
    exit
fi

folder=${1:-$here/release}
mkdir -p "$folder"
build "$here"
cp "$here/target/release/rtc" "$folder/rtc"
bill "$here" "$folder"
(cd "$folder" && sha256sum rtc* | tee SHA256SUMS)
