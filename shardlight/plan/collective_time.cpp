#include "shardlight/plan/collective_time.h"

#include <fmt/format.h>

#include "shardlight/base/nearest.h"

namespace shardlight::plan {
namespace {

double wire_share(std::int64_t ranks) {
  return static_cast<double>(ranks - 1) / static_cast<double>(ranks);
}

}  // namespace

const std::vector<Interconnect>& interconnect_presets() {
  static const std::vector<Interconnect> kPresets = {
      {.name = "nvswitch", .bytes_per_second = 300e9},
      {.name = "ib-edr", .bytes_per_second = 12.5e9}};
  return kPresets;
}

Result<Interconnect> interconnect_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const Interconnect& preset : interconnect_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return user_error("interconnect", name, one_of(names, name));
}

Seconds ring_time(Collective collective, double bytes, std::int64_t ranks, std::int64_t messages,
                  const Interconnect& link) {
  const double on_wire = wire_share(ranks) * bytes;
  const Seconds reducing =
      collective == Collective::kReduceScatter ? on_wire * link.reduce_a_byte : Seconds(0);
  return static_cast<double>(messages * (ranks - 1)) * link.latency +
         Seconds(on_wire / link.bytes_per_second) + reducing;
}

Seconds traffic_time(const std::vector<Pass>& passes, Count parameters, std::int64_t ranks,
                     std::int64_t messages, const Interconnect& link) {
  Seconds sum{0};
  for (const Pass& pass : passes) {
    const double bytes = static_cast<double>(parameters.value() * pass.bytes_per_element);
    sum +=
        static_cast<double>(pass.times) * ring_time(pass.collective, bytes, ranks, messages, link);
  }
  return sum;
}

double bus_bandwidth(double bytes, Seconds time, std::int64_t ranks) {
  return bytes / time.count() * wire_share(ranks);
}

}  // namespace shardlight::plan
