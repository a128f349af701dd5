#!/usr/bin/env bash
# Builds the release preset with its benchmarks, in a folder of its own, and runs them one by one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset release -B build/bench -DSHARDLIGHT_BENCH=ON -DSHARDLIGHT_TESTS=OFF >/dev/null
cmake --build build/bench
for program in build/bench/bin/*_bench; do
  echo "== ${program##*/}"
  "$program"
done
