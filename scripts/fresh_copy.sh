#!/usr/bin/env bash
# Run the gate (or the given make targets) on a copy of the tree, without ignored files and with an
# empty environment, as on a new machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard \
    | while IFS= read -r -d '' file; do [[ ! -e $file ]] || printf '%s\0' "$file"; done \
    | tar --create --null --files-from=- | tar --extract --directory="$copy"
env -u PYTHONPATH -u VIRTUAL_ENV -u MAKEFLAGS make --directory="$copy" "${@:-test}"
