#include "shardlight/engine/c10d/call_header.h"

#include <fmt/format.h>

#include "shardlight/comm/call_checks.h"
#include "shardlight/comm/text_hash.h"

namespace shardlight::engine {

using comm::OperationKind;

void append_to_history(CallHeader& header, std::uint64_t before) {
  header.history = comm::hash_of_text(
      fmt::format("{} {} {} {} {} {} {} {}\n", header.number, header.version, header.bytes,
                  header.unit, header.root, header.kind, header.combine, header.fresh),
      before);
}

std::string text_of(const CallHeader& header, const std::vector<comm::UnitSpec>& units) {
  const auto kind = static_cast<OperationKind>(header.kind);
  comm::Operation operation{.kind = kind, .bytes = Bytes(header.bytes)};
  if (header.unit > 0 && header.unit <= units.size()) operation.unit = units[header.unit - 1].name;
  if (header.root >= 0) operation.peer = Rank(header.root);
  if (kind == OperationKind::kAllReduce) {
    operation.combine = name_of(static_cast<comm::Combine>(header.combine));
  }
  std::string text = full_text_of(operation);
  switch (kind) {
    case OperationKind::kConnect:
      return fmt::format("{} with units of fingerprint {:016x}, staging of {} bytes", name_of(kind),
                         static_cast<std::uint64_t>(header.version), header.bytes);
    case OperationKind::kGather:
      return text + fmt::format(", version {}", header.version);
    case OperationKind::kReduce:
    case OperationKind::kGatherReduced:
      return text + fmt::format(", {}round {}", header.fresh != 0 ? "fresh " : "", header.version);
    default:
      return text;
  }
}

std::string difference(const std::vector<CallHeader>& headers, Rank own,
                       const std::vector<comm::UnitSpec>& units) {
  const CallHeader& mine = headers[static_cast<std::size_t>(own.value())];
  const auto text = [&](const CallHeader& header) {
    return fmt::format("{} as call {}", text_of(header, units), header.number);
  };
  std::string others;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (headers[rank].history == mine.history) continue;
    if (headers[rank].kind >= comm::kOperationKinds || headers[rank].unit > units.size()) {
      return fmt::format(
          "rank {} sends what is no call of this exchange, as the process group is "
          "in other use; this rank calls {}",
          rank, text(mine));
    }
    if (text(headers[rank]) != text(mine)) {
      return fmt::format("rank {} calls {}; this rank calls {}", rank, text(headers[rank]),
                         text(mine));
    }
    others = fmt::format("rank {} made other calls than this rank before {}", rank, text(mine));
  }
  return others;
}

}  // namespace shardlight::engine
