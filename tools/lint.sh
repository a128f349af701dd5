#!/usr/bin/env bash
# clang-tidy over the sources of shardlight/ (and through them its headers) by .clang-tidy, then
# the shell scripts. It reads the compile commands of the dev preset: make lint configures that.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ! -f build/dev/compile_commands.json ]]; then
  echo "lint: make lint configures first" >&2
  exit 1
fi
status=0
find shardlight -name '*.cpp' -print0 | sort -z |
  xargs -0 -n 1 -P "$(nproc)" .venv/bin/clang-tidy --quiet -p build/dev \
    --extra-arg=-Wno-unknown-warning-option || status=1
find tools -name '*.sh' -print0 | xargs -0 shellcheck .ci/run || status=1
exit "$status"
