// How many bytes of a small layer each rank owns: slices [ranks], 2 if not given.
#include <cstdio>

#include "shardlight/base/parse_quantity.h"
#include "shardlight/layout/slice_table.h"

namespace {

shardlight::Status print_slices(const char* ranks_text) {
  namespace layout = shardlight::layout;
  SHARDLIGHT_TRY(const auto ranks,
                 shardlight::parse_count("ranks", ranks_text, {1, layout::kMaxRanks}));

  layout::ParameterTable table;
  SHARDLIGHT_TRY_STATUS(table.add("linear.weight", {100, 10}));
  SHARDLIGHT_TRY_STATUS(table.add("linear.bias", {100}));
  SHARDLIGHT_TRY(const auto units, layout::build_units(table));
  SHARDLIGHT_TRY(const auto slices, layout::SliceTable::create(units, {.ways = ranks}, ranks));

  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const auto elements = slices.elements_of(shardlight::Rank(rank));
    const auto bytes = layout::bytes_per_element(layout::DType::kFloat32) * elements.value();
    std::printf("rank %lld: %lld bytes\n", static_cast<long long>(rank),
                static_cast<long long>(bytes.value()));
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto printed = print_slices(argc > 1 ? argv[1] : "2");
  if (printed) return 0;
  std::fprintf(stderr, "%s\n", printed.error().message().c_str());
  return 2;
}
