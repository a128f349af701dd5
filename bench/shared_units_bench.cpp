// What it is worth to read units where their owners keep them (view) instead of copies (gather):
// shared_units_bench [RANKS [STREAM_MIB]] prints one JSON object a line. Each call makes a unit
// readable and reads all of it once, as a product of matrices does: units of 2 to 16 MiB of a
// stream that no cache holds, and one of 256 KiB again and again.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench/rank_timing.h"

namespace {

using namespace shardlight;        // NOLINT(google-build-using-namespace): a program
using namespace shardlight::comm;  // NOLINT(google-build-using-namespace)

// Every byte once, by the same instructions wherever it stands and as fast as the processor reads;
// the result is not known beforehand.
__attribute__((noinline, target_clones("avx512f", "avx2", "default"))) void read_once(
    std::span<const std::byte> bytes) {
  const auto* words = reinterpret_cast<const std::uint64_t*>(bytes.data());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(*words); ++i) sum += words[i];
  asm volatile("" : : "r"(sum));
}

void measure(Transport& transport, std::int64_t unit_bytes, const char* stream) {
  const auto units = static_cast<UnitId>(transport.units().size());
  for (UnitId unit = 0; unit < units; ++unit) {
    std::fill(transport.shard(unit).begin(), transport.shard(unit).end(), std::byte{3});
    must(transport.publish(unit, 1));
  }
  std::vector<std::byte> copy(static_cast<std::size_t>(unit_bytes), std::byte{1});
  const auto time = [&](const char* what, const std::function<void(UnitId)>& call) {
    say(transport, fmt::format("{}, {}", what, stream), "unit_bytes", unit_bytes,
        timed(transport, unit_bytes, [&](int i) { call(static_cast<UnitId>(i) % units); }));
  };
  time("view and read", [&](UnitId unit) {
    const auto view = transport.view(unit, 1, ample());
    if (!view) must(Failure(view.error()));
    read_once(*view);
  });
  time("gather and read", [&](UnitId unit) {
    must(transport.gather(unit, 1, copy, ample()));
    read_once(copy);
  });
}

bool run(std::int64_t world, std::int64_t unit_bytes, std::int64_t units, const char* stream) {
  std::vector<UnitSpec> specs;
  for (std::int64_t i = 0; i < units; ++i) {
    specs.push_back(even_unit(fmt::format("u{}", i), unit_bytes, world));
  }
  return run_ranks(world, specs,
                   [&](Transport& transport) { measure(transport, unit_bytes, stream); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t world = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 2;
  const std::int64_t stream_mib = argc > 2 ? std::strtoll(argv[2], nullptr, 10) : 768;
  for (const std::int64_t mib : {2, 4, 8, 16}) {
    if (!run(world, mib << 20, std::max<std::int64_t>(stream_mib / mib, 1), "cold")) return 1;
  }
  return run(world, std::int64_t{256} << 10, 1, "in cache") ? 0 : 1;
}
