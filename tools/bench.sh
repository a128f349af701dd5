#!/usr/bin/env bash
# Builds the release preset with its benchmarks, in a folder of its own, and runs them one by one:
# the programs that stand alone, the comparisons of several runs, then the race against DDP, FSDP2
# and DeepSpeed, which takes an hour or two and writes docs/race.svg.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cmake --preset release -B build/bench -DSHARDLIGHT_BENCH=ON -DSHARDLIGHT_TESTS=OFF >/dev/null
cmake --build build/bench
for program in build/bench/bin/*_bench; do
  echo "== ${program##*/}"
  "$program"
done

compare() {
  echo "== $1"
  .venv/bin/python "bench/$1" "${@:2}"
}
compare exchange_against_others.py build/bench/bin 2 4 8
compare engine_overhead.py build/bench/bin/engine_rank 3
compare engine_memory.py build/bench/bin/engine_rank

cmake --build build/release --target shardlight_python
[[ -x build/peers/bin/deepspeed ]] || bench/peers/install.sh
compare peers/race.py --chart docs/race.svg
