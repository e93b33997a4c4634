#!/usr/bin/env bash
# The tree-sitter grammar of editors/tree-sitter-rt on every spec that there is: all are read without an error, and every colour is asked for
# by a name that the grammar has.
#
#   tests/tree_sitter.sh
#
# Needs the command tree-sitter (cargo install tree-sitter-cli), Node.js and a C compiler, and says so where one is missing.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
for program in tree-sitter node cc; do
    command -v "$program" > /dev/null || { echo "$program is missing" >&2; exit 2; }
done
folder=$(mktemp -d "${TMPDIR:-/tmp}/rtc-tree-sitter-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cp -r "$here/editors/tree-sitter-rt/." "$folder"
cd "$folder"
tree-sitter generate
# Of the cases, those of errors may be wrong in their syntax.
mapfile -t specs < <(git -C "$here" ls-files 'specs/*.rt' 'tests/cases/*.rt' 'docs/*.rt' | grep -v '^tests/cases/errors/' | sed "s|^|$here/|")
[ "${#specs[@]}" -gt 100 ] || { echo "only ${#specs[@]} specs" >&2; exit 1; }
status=0
tree-sitter parse --quiet "${specs[@]}" > parsed 2>&1 || { status=1; cat parsed; }
# A word that stands where none can is an error.
printf 'model a { embed { width: 4 } ) }\n' > wrong.rt
! tree-sitter parse --quiet wrong.rt > /dev/null 2>&1 || { echo "an error is not seen" >&2; status=1; }
tree-sitter query queries/highlights.scm "$here/specs/trm.rt" > colours 2> /dev/null
grep -q 'keyword' colours
echo "${#specs[@]} specs, $(grep -c capture colours) colours in specs/trm.rt"
exit $status
