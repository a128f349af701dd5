#include "tests/comm/training_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "shardlight/base/check.h"
#include "shardlight/base/random.h"
#include "tests/comm/reference.h"
#include "tests/comm/unit_shapes.h"
#include "tests/comm/worlds.h"

namespace shardlight::comm {
namespace {

using layout::DType;

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

bool same_bits(std::span<const std::byte> found, const std::vector<std::byte>& wanted) {
  return std::ranges::equal(found, wanted);
}

// One rank of one run.
class Runner {
 public:
  Runner(const TrainingSteps& run, Transport& transport)
      : run_(run),
        transport_(transport),
        units_(transport.units()),
        one_sided_(transport.one_sided()),
        lanes_(one_sided_ ? run.lanes : 1) {}

  std::string run_all() {
    for (int step = 0; step < run_.steps; ++step) {
      for (UnitId unit = 0; unit < units_.size(); ++unit) SHARDLIGHT_SAY(publish(unit, step));
      std::vector<std::string> said(lanes_);
      std::vector<std::thread> lanes;
      for (int lane = 0; lane < lanes_; ++lane) {
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
    return {.key = key, .dtype = reduced_dtype(unit + static_cast<std::size_t>(of))};
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
      if (static_cast<int>(unit) % lanes_ == lane) mine.push_back(unit);
    }
    const auto order = [&](int purpose) {
      return shuffled(mine, key_of(run_.seed, {4, one_sided_ ? rank() : 0, lane, step, purpose}));
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
    std::vector<std::byte> elsewhere(expected.size(), std::byte{0xee});
    // Where every rank keeps the whole unit, both there and elsewhere, in turn.
    const bool in_place = units_[unit].whole && step % 2 == 0;
    const std::span<std::byte> target = in_place ? transport_.whole(unit) : elsewhere;
    SHARDLIGHT_SAY(transport_.gather(unit, step + 1, target, ample()));
    if (!std::equal(target.begin(), target.end(), expected.begin(), expected.end())) {
      return fmt::format("gathered {} differs", units_[unit].name);
    }
    const auto view = transport_.view(unit, step + 1, ample());
    SHARDLIGHT_SAY(view);
    const bool same = view->empty() || std::equal(view->begin(), view->end(), expected.begin());
    return same ? "" : fmt::format("viewed {} differs", units_[unit].name);
  }

  Stretches stretches(UnitId unit, int step, int round, std::int64_t of) const {
    return stretches_within(units_[unit].elements().value(),
                            key_of(run_.seed, {5, id(unit), step, round, of}));
  }

  Status reduce(UnitId unit, int step, int round) {
    const std::int64_t counted = std::int64_t{step} * run_.rounds + round;
    if (passes(unit, step, round, rank())) {
      return transport_.reduce(unit, counted, round == 0, {}, ample());
    }
    const Numbers numbers = gradient_numbers(unit, step, round, rank());
    const auto bytes = numbers.bytes(0, units_[unit].elements().value());
    const std::int64_t each = layout::bytes_per_element(numbers.dtype).value();
    std::vector<GradientPart> parts;
    for (const Stretch& stretch : stretches(unit, step, round, rank())) {
      parts.push_back({.begin = Count(stretch.begin),
                       .elements = Count(stretch.end - stretch.begin),
                       .data = bytes.data() + stretch.begin * each});
    }
    return transport_.reduce(unit, counted, round == 0, {.parts = parts, .dtype = numbers.dtype},
                             ample());
  }

  // Of elements [begin, end).
  Sum expected_sum(UnitId unit, int step, std::int64_t begin, std::int64_t end) const {
    ReferenceSum expected(units_[unit].sum_dtype);
    for (int round = 0; round < run_.rounds; ++round) {
      std::vector<std::optional<RankGradient>> gradients(units_[unit].slices.size());
      for (std::size_t of = 0; of < gradients.size(); ++of) {
        if (passes(unit, step, round, id(of))) continue;
        RankGradient gradient{
            .values = gradient_numbers(unit, step, round, id(of)).values(begin, end),
            .present = std::vector<char>(static_cast<std::size_t>(end - begin))};
        for (const Stretch& stretch : stretches(unit, step, round, id(of))) {
          const std::int64_t last = std::clamp(stretch.end, begin, end);
          const std::int64_t first = std::clamp(stretch.begin, begin, last);
          std::fill(gradient.present.begin() + (first - begin),
                    gradient.present.begin() + (last - begin), 1);
        }
        gradients[of] = std::move(gradient);
      }
      expected.add_round(units_[unit].order, gradients);
    }
    return expected.value();
  }

  // Everybody of a small unit, one rank in turn of a large one; where all must, all.
  bool gathers_sum(UnitId unit, int step) const {
    constexpr std::int64_t kSmall = 1000;
    return !one_sided_ || units_[unit].elements() <= Count(kSmall) ||
           (id(unit) + step) % transport_.world() == rank();
  }

  std::string check_sum(UnitId unit, int step) {
    const UnitSpec& spec = units_[unit];
    const auto differs = [&](const char* what) {
      return fmt::format("{} of {} ({}) differs in step {}", what, spec.name, text_of(spec.order),
                         step);
    };
    const std::int64_t begin = spec.slice_begin(Rank(rank())).value();
    const std::int64_t last = std::int64_t{step + 1} * run_.rounds - 1;
    const auto sum = transport_.reduced(unit, last, ample());
    SHARDLIGHT_SAY(sum);
    const Sum wanted = expected_sum(unit, step, begin, begin + spec.slices[rank()].value());
    const auto bytes_of_sum = [&](const Sum& values) {
      return bytes_of(values.value_or(std::vector<float>()), spec.sum_dtype);
    };
    if (sum->dtype() != spec.sum_dtype && !sum->empty()) return differs("the dtype");
    if (!same_bits(sum->bytes(), bytes_of_sum(wanted))) return differs("the sum");
    if (gathers_sum(unit, step)) {
      const Bytes bytes = spec.sum_bytes(spec.elements());
      const std::vector untouched(static_cast<std::size_t>(bytes.value()), std::byte{0xee});
      std::vector<std::byte> gathered = untouched;
      const auto any = transport_.gather_reduced(
          unit, last, {gathered.data(), spec.sum_dtype, spec.elements()}, ample());
      SHARDLIGHT_SAY(any);
      const Sum whole = expected_sum(unit, step, 0, spec.elements().value());
      if (*any != whole.has_value()) return differs("whether there is a whole sum");
      if (!same_bits(gathered, whole ? bytes_of_sum(whole) : untouched)) {
        return differs("the whole sum");
      }
      if (*any) sums_gathered_ += spec.sum_bytes(spec.elements() - spec.slices[rank()]).value();
    }
    SHARDLIGHT_SAY(transport_.release(unit, last));
    return "";
  }

  // Of this rank's parts, those that lie in other ranks' slices.
  std::int64_t foreign_elements(UnitId unit, int step, int round) const {
    const std::int64_t begin = units_[unit].slice_begin(Rank(rank())).value();
    const std::int64_t end = begin + units_[unit].slices[rank()].value();
    std::int64_t foreign = 0;
    for (const Stretch& stretch : stretches(unit, step, round, rank())) {
      const std::int64_t before = std::min(stretch.end, begin) - std::min(stretch.begin, begin);
      foreign += before + std::max(stretch.end, end) - std::max(stretch.begin, end);
    }
    return foreign;
  }

  std::string traffic_as_expected() const {
    TrafficCount wanted{.gathered = Bytes(sums_gathered_)};
    for (UnitId unit = 0; unit < units_.size(); ++unit) {
      const std::int64_t foreign =
          units_[unit].elements().value() - units_[unit].slices[rank()].value();
      wanted.gathered += layout::bytes_per_element(units_[unit].dtype) * (foreign * run_.steps);
      for (int i = 0; units_[unit].reduces && i < run_.steps * run_.rounds; ++i) {
        const int step = i / run_.rounds;
        const int round = i % run_.rounds;
        if (passes(unit, step, round, rank())) continue;
        const DType dtype = gradient_numbers(unit, step, round, rank()).dtype;
        wanted.reduced += layout::bytes_per_element(dtype) * foreign_elements(unit, step, round);
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
  bool one_sided_;
  int lanes_;
  std::atomic<std::int64_t> sums_gathered_{0};
};

}  // namespace

std::string TrainingSteps::run(Transport& transport) const {
  return Runner(*this, transport).run_all();
}

}  // namespace shardlight::comm
