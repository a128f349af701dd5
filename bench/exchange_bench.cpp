// The exchange between processes of this machine, beside the memory-copy limit of the same run:
// exchange_bench [RANKS [LARGEST_SHARD_BYTES [only]]], or mpirun -n RANKS and the same, prints one
// JSON object a line, of medians over rounds: wall and CPU milliseconds a rank for an all-gather
// (publish and gather, two units in turn), a reduce-scatter (reduce, reduced, release; also of a
// gradient in small parts) and copying the all-gather's bytes at once.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench/rank_timing.h"

namespace {

using namespace shardlight;        // NOLINT(google-build-using-namespace): a program
using namespace shardlight::comm;  // NOLINT(google-build-using-namespace)

// As many parts as a unit of small parameters has, with gaps between.
std::vector<GradientPart> small_parts(std::int64_t elements, const std::byte* data) {
  constexpr std::int64_t kPart = 96, kGap = 4;
  std::vector<GradientPart> parts;
  for (std::int64_t begin = 0; begin + kPart <= elements; begin += kPart + kGap) {
    parts.push_back({.begin = Count(begin), .elements = Count(kPart), .data = data + 4 * begin});
  }
  return parts;
}

void measure(Transport& transport, std::int64_t shard_bytes) {
  const std::int64_t bytes = shard_bytes * transport.world();
  std::vector<std::byte> whole(static_cast<std::size_t>(bytes), std::byte{1});
  std::vector<std::byte> other(static_cast<std::size_t>(bytes), std::byte{2});
  const std::vector<std::byte> another = other;
  const auto time = [&](const char* what, const std::function<void(int)>& call) {
    say(transport, what, "shard_bytes", shard_bytes, timed(transport, bytes, call));
  };
  time("copy", [&](int i) {
    const auto& source = i % 2 == 0 ? other : another;
    std::memcpy(whole.data(), source.data(), static_cast<std::size_t>(bytes));
  });
  time("all-gather", [&](int i) {
    const auto unit = static_cast<UnitId>(i % 2);
    must(transport.publish(unit, i / 2 + 1));
    must(transport.gather(unit, i / 2 + 1, whole, ample()));
  });
  std::int64_t round = 0;
  const auto reduce_scatter = [&](const std::vector<GradientPart>& parts) {
    must(transport.reduce(2, round, true, {.parts = parts}, ample()));
    if (!transport.reduced(2, round, ample())) std::_Exit(1);
    must(transport.release(2, round++));
  };
  const std::vector<GradientPart> one = {{.elements = Count(bytes / 4), .data = other.data()}};
  const std::vector<GradientPart> many = small_parts(bytes / 4, other.data());
  time("reduce-scatter", [&](int) { reduce_scatter(one); });
  time("reduce-scatter of parts", [&](int) { reduce_scatter(many); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t world = argc > 1 ? std::strtoll(argv[1], nullptr, 10) : 2;
  const std::int64_t largest =
      argc > 2 ? std::strtoll(argv[2], nullptr, 10) : std::int64_t{64} << 20;
  const bool only = argc > 3;  // the largest size alone
  for (const std::int64_t kib : {4, 64, 1024, 16'384, 65'536}) {
    const std::int64_t shard = kib << 10;
    if (shard > largest || (only && shard != largest)) continue;
    std::vector<UnitSpec> units;
    for (const char* name : {"a", "b", "c"}) units.push_back(even_unit(name, shard * world, world));
    units[2].reduces = true;
    if (!run_ranks(world, units, [&](Transport& transport) { measure(transport, shard); })) {
      return 1;
    }
  }
  return 0;
}
