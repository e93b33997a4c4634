#!/usr/bin/env bash
# The short way from a change to its proof: format, lints, and the tests of the crates that changed.
#
#   tools/check.sh [CRATE..]   crates by their folders, as runtime/kernel; those with changes since origin/main, or since the last
#                              commit, unless given
#
# `.ci/run` is the whole check.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export INSTA_UPDATE=no CARGO_TERM_PROGRESS_WHEN=never

crates=("$@")
if [ $# -eq 0 ]; then
    base=$(git merge-base HEAD origin/main 2> /dev/null || git rev-parse HEAD)
    mapfile -t crates < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } |
        sed -nE -e 's#^specs/lib/.*#compiler#p' -e 's#^(runtime/[a-z]+|compiler|report|export|lsp|candle|session|cli|benches)/.*#\1#p' |
        sort -u)
fi
[ ${#crates[@]} -gt 0 ] || echo "no crate has changed: format, lints and rules only"
packages=()
for crate in "${crates[@]}"; do
    [ -f "$crate/Cargo.toml" ] || { echo "there is no crate in $crate" >&2; exit 2; }
    packages+=(-p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$crate/Cargo.toml" | head -n 1)")
done

step() {
    echo "== $* (after $SECONDS s)"
}

step "format"
cargo fmt --all --check
step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings
step "rules of the repository"
cargo test --workspace --locked --quiet --test tidy
# Those of the language are quick; the rest of `tests` is for `.ci/run`, or for a name (docs/change.md).
step "goldens of the language"
cargo test --workspace --locked --quiet --test cases
if [ ${#crates[@]} -gt 0 ]; then
    step "tests of ${crates[*]}"
    cargo test --locked "${packages[@]}"
fi
step "passed"
