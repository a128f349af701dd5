#include "shardlight/base/error.h"

#include <fmt/format.h>

#include <utility>

#include "shardlight/base/printable.h"

namespace shardlight {
namespace {

const char* name_of(Unusable unusable) {
  switch (unusable) {
    case Unusable::kOperation:
      return "this operation";
    case Unusable::kCommunicator:
      return "the communicator";
    case Unusable::kJob:
      return "the job";
  }
  return "?";
}

std::string name_of(const ErrorSite& site) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    if (!text.empty()) text += ", ";
    text += part;
  };
  if (site.rank) add(fmt::format("rank {}", site.rank->value()));
  if (!site.unit.empty()) add(fmt::format("unit {}", site.unit));
  if (!site.operation.empty()) add(site.operation);
  return text;
}

}  // namespace

Error Error::user(std::string field, std::string value, std::string allowed) {
  Error error(ErrorCategory::kUser);
  error.field_ = std::move(field);
  error.value_ = std::move(value);
  error.allowed_ = std::move(allowed);
  error.compose();
  return error;
}

Error Error::environment(ErrorSite site, std::string detail, Unusable unusable) {
  Error error(ErrorCategory::kEnvironment);
  error.site_ = std::move(site);
  error.detail_ = std::move(detail);
  error.unusable_ = unusable;
  error.compose();
  return error;
}

Error Error::bug(std::string detail) {
  Error error(ErrorCategory::kBug);
  error.detail_ = std::move(detail);
  error.compose();
  return error;
}

Error Error::within(const std::string& prefix, const std::string& joint) && {
  field_ = field_.empty() ? prefix : prefix + joint + field_;
  compose();
  return std::move(*this);
}

void Error::compose() {
  switch (category_) {
    case ErrorCategory::kUser: {
      const std::string field = printable(field_);
      const std::string allowed = printable(allowed_);
      message_ = value_.empty() ? fmt::format("{}: is missing; allowed: {}", field, allowed)
                                : fmt::format("{}: '{}' is not allowed; allowed: {}", field,
                                              printable(value_), allowed);
      return;
    }
    case ErrorCategory::kEnvironment: {
      const std::string site = printable(name_of(site_));
      // The detail may be a table with a line a rank.
      message_ = fmt::format("{}{}{}; no longer usable: {}", site, site.empty() ? "" : ": ",
                             printable(detail_, true), name_of(*unusable_));
      return;
    }
    case ErrorCategory::kBug:
      message_ = fmt::format("a bug in shardlight: {}", printable(detail_));
      return;
  }
}

}  // namespace shardlight
