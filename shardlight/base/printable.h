// Text from outside (an argument, a file's name or content) made fit for a terminal: control
// characters escaped, so that it can neither move the cursor nor forge a line, and the middle of
// very long text left out. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

namespace shardlight {

inline constexpr std::size_t kPrintableBytes = 400;

// C0 and C1 controls and DEL as \xNN, bytes that are not UTF-8 as well; line breaks stay only where
// `keep_lines` says so. More than kPrintableBytes are cut to its first and last half with " … "
// between, unless lines are kept.
std::string printable(std::string_view text, bool keep_lines = false);

}  // namespace shardlight
