#include "tests/comm/training_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "shardlight/base/arithmetic.h"
#include "shardlight/base/check.h"
#include "shardlight/base/random.h"
#include "tests/comm/reference.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using layout::DType;

constexpr std::array kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

std::uint64_t key_of(std::uint64_t seed, std::initializer_list<std::int64_t> parts) {
  std::uint64_t key = seed;
  for (const std::int64_t part : parts) {
    key = CounterRandom(key).bits(static_cast<std::uint64_t>(part));
  }
  return key;
}

std::vector<std::size_t> shuffled(std::vector<std::size_t> order, std::uint64_t key) {
  for (std::size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[CounterRandom(key).bits(i) % i]);
  }
  return order;
}

// One rank of one run.
class Runner {
 public:
  Runner(const TrainingSteps& run, Transport& transport)
      : run_(run), transport_(transport), units_(transport.units()) {}

  std::string run_all() {
    for (int step = 0; step < run_.steps; ++step) {
      for (UnitId unit = 0; unit < units_.size(); ++unit) SHARDLIGHT_SAY(publish(unit, step));
      std::vector<std::string> said(run_.lanes);
      std::vector<std::thread> lanes;
      for (int lane = 0; lane < run_.lanes; ++lane) {
        lanes.emplace_back([&, lane] { said[lane] = run_lane(lane, step); });
      }
      for (std::thread& lane : lanes) lane.join();
      for (const std::string& text : said) {
        if (!text.empty()) return text;
      }
      // Everybody has read the shards.
      SHARDLIGHT_SAY(transport_.barrier(ample()));
    }
    return traffic_as_expected();
  }

 private:
  std::int64_t rank() const { return transport_.rank().value(); }
  static std::int64_t id(UnitId unit) { return static_cast<std::int64_t>(unit); }

  Numbers shard_numbers(UnitId unit, int step) const {
    return {.key = key_of(run_.seed, {1, id(unit), step}), .dtype = units_[unit].dtype};
  }
  // Units take turns in who passes: nobody, some, all in the first round, all in all of them.
  bool passes(UnitId unit, int step, int round, std::int64_t of) const {
    const auto manner = (unit + static_cast<std::size_t>(step)) % 4;
    if (manner == 0) return false;
    if (manner == 3 || (manner == 2 && round == 0)) return true;
    return key_of(run_.seed, {2, id(unit), step, round, of}) % 3 == 0;
  }
  Numbers gradient_numbers(UnitId unit, int step, int round, std::int64_t of) const {
    const std::uint64_t key = key_of(run_.seed, {3, id(unit), step, round, of});
    return {.key = key, .dtype = kDTypes[(unit + static_cast<std::size_t>(of)) % kDTypes.size()]};
  }

  Status publish(UnitId unit, int step) {
    const std::int64_t begin = units_[unit].slice_begin(Rank(rank())).value();
    const std::span<std::byte> shard = transport_.shard(unit);
    const std::int64_t end = begin + units_[unit].slices[rank()].value();
    const std::vector<std::byte> bytes = shard_numbers(unit, step).bytes(begin, end);
    SHARDLIGHT_CHECK_EQ(bytes.size(), shard.size());
    std::copy(bytes.begin(), bytes.end(), shard.begin());
    return transport_.publish(unit, step + 1);
  }

  std::string run_lane(int lane, int step) {
    std::vector<std::size_t> mine;
    for (UnitId unit = 0; unit < units_.size(); ++unit) {
      if (static_cast<int>(unit) % run_.lanes == lane) mine.push_back(unit);
    }
    const auto order = [&](int purpose) {
      return shuffled(mine, key_of(run_.seed, {4, rank(), lane, step, purpose}));
    };
    for (const UnitId unit : order(-1)) {
      if (std::string text = gather(unit, step); !text.empty()) return text;
    }
    for (int round = 0; round < run_.rounds; ++round) {
      for (const UnitId unit : order(round)) {
        if (units_[unit].reduces) SHARDLIGHT_SAY(reduce(unit, step, round));
      }
    }
    for (const UnitId unit : order(-2)) {
      if (!units_[unit].reduces) continue;
      if (std::string text = check_sum(unit, step); !text.empty()) return text;
    }
    return "";
  }

  std::string gather(UnitId unit, int step) {
    const std::vector<std::byte> expected =
        shard_numbers(unit, step).bytes(0, units_[unit].elements().value());
    std::vector<std::byte> whole(expected.size(), std::byte{0xee});
    SHARDLIGHT_SAY(transport_.gather(unit, step + 1, whole, ample()));
    if (whole != expected) return fmt::format("gathered {} differs", units_[unit].name);
    const auto view = transport_.view(unit, step + 1, ample());
    SHARDLIGHT_SAY(view);
    const bool same = view->empty() || std::equal(view->begin(), view->end(), expected.begin());
    return same ? "" : fmt::format("viewed {} differs", units_[unit].name);
  }

  Status reduce(UnitId unit, int step, int round) {
    const std::int64_t counted = std::int64_t{step} * run_.rounds + round;
    if (passes(unit, step, round, rank())) {
      return transport_.reduce(unit, counted, round == 0, {}, ample());
    }
    const Numbers numbers = gradient_numbers(unit, step, round, rank());
    const auto bytes = numbers.bytes(0, units_[unit].elements().value());
    return transport_.reduce(unit, counted, round == 0,
                             {.data = bytes.data(), .dtype = numbers.dtype}, ample());
  }

  std::string check_sum(UnitId unit, int step) {
    const UnitSpec& spec = units_[unit];
    const std::int64_t begin = spec.slice_begin(Rank(rank())).value();
    const std::int64_t end = begin + spec.slices[rank()].value();
    ReferenceSum expected;
    for (int round = 0; round < run_.rounds; ++round) {
      std::vector<Part> parts(spec.slices.size());
      for (std::size_t of = 0; of < parts.size(); ++of) {
        if (passes(unit, step, round, id(of))) continue;
        parts[of] = gradient_numbers(unit, step, round, id(of)).values(begin, end);
      }
      expected.add_round(spec.order, parts);
    }
    const std::int64_t last = std::int64_t{step + 1} * run_.rounds - 1;
    const auto sum = transport_.reduced(unit, last, ample());
    SHARDLIGHT_SAY(sum);
    const std::vector<float> wanted = expected.value().value_or(std::vector<float>());
    if (sum->size() != wanted.size() ||
        (!wanted.empty() && std::memcmp(sum->data(), wanted.data(), sum->size_bytes()) != 0)) {
      return fmt::format("the sum of {} ({}) differs in step {}", spec.name, text_of(spec.order),
                         step);
    }
    SHARDLIGHT_SAY(transport_.release(unit, last));
    return "";
  }

  std::string traffic_as_expected() const {
    TrafficCount wanted;
    for (UnitId unit = 0; unit < units_.size(); ++unit) {
      const std::int64_t foreign =
          units_[unit].elements().value() - units_[unit].slices[rank()].value();
      wanted.gathered += layout::bytes_per_element(units_[unit].dtype) * (foreign * run_.steps);
      for (int i = 0; units_[unit].reduces && i < run_.steps * run_.rounds; ++i) {
        const int step = i / run_.rounds;
        const int round = i % run_.rounds;
        if (passes(unit, step, round, rank())) continue;
        const DType dtype = gradient_numbers(unit, step, round, rank()).dtype;
        wanted.reduced += layout::bytes_per_element(dtype) * foreign;
      }
    }
    const TrafficCount counted = transport_.traffic();
    if (counted.gathered == wanted.gathered && counted.reduced == wanted.reduced) return "";
    return fmt::format("counted {} and {} bytes, should be {} and {}", counted.gathered.value(),
                       counted.reduced.value(), wanted.gathered.value(), wanted.reduced.value());
  }

  const TrainingSteps& run_;
  Transport& transport_;
  const std::vector<UnitSpec>& units_;
};

// Every second rank has nothing.
std::vector<Count> with_holes(std::int64_t elements, std::int64_t world) {
  std::vector<Count> slices(static_cast<std::size_t>(world));
  for (std::int64_t rank = 0; rank < world; rank += 2) slices[rank] = Count(elements);
  return slices;
}

}  // namespace

UnitSpec unit_of(std::string name, std::int64_t elements, std::int64_t world) {
  UnitSpec unit{.name = std::move(name)};
  const std::int64_t each = divide_up(elements, world);
  for (std::int64_t rank = 0; rank < world; ++rank) {
    const std::int64_t left = std::max<std::int64_t>(elements - rank * each, 0);
    unit.slices.emplace_back(std::min(each, left));
  }
  return unit;
}

std::vector<UnitSpec> units_of_all_shapes(std::int64_t world) {
  using enum ReduceOrderKind;
  const std::vector<ReduceOrder> orders = {
      {.kind = kLinear},
      {.kind = kGrouped, .group = 1},
      {.kind = kGrouped, .group = std::min<std::int64_t>(2, world)},
      {.kind = kGrouped, .group = std::min<std::int64_t>(3, world)},
      {.kind = kGrouped, .group = world},
      {.kind = kTree}};
  std::vector<UnitSpec> units;
  const auto add = [&](UnitSpec unit) {
    unit.dtype = kDTypes[units.size() % kDTypes.size()];
    unit.name = fmt::format("{}.{}", units.size(), unit.name);
    units.push_back(std::move(unit));
  };
  for (const ReduceOrder& order : orders) {
    for (const std::int64_t elements : {0L, 1L, 77L, 100 * world + 3, 2 * 65'536L + 5}) {
      UnitSpec unit = unit_of(fmt::format("{}", elements), elements, world);
      unit.order = order;
      add(unit);
    }
    UnitSpec holes{.name = "holes", .slices = with_holes(130, world), .order = order};
    add(holes);
    UnitSpec last{.name = "last", .slices = std::vector<Count>(world), .order = order};
    last.slices.back() = Count(65'536);
    add(last);
  }
  UnitSpec frozen = unit_of("frozen", 1001, world);
  frozen.reduces = false;
  add(frozen);
  return units;
}

std::string TrainingSteps::run(Transport& transport) const {
  return Runner(*this, transport).run_all();
}

}  // namespace shardlight::comm
