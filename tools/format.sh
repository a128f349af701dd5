#!/usr/bin/env bash
# Formats the C++ files by .clang-format; with --check it changes nothing, and fails if it would.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  '') mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  *) echo "usage: tools/format.sh [--check]" >&2 && exit 2 ;;
esac
find bench examples shardlight tests -name '*.h' -print0 -o -name '*.cpp' -print0 |
  xargs -0 clang-format "${mode[@]}"
