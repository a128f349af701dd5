#include "shardlight/base/printable.h"

#include <gtest/gtest.h>

#include "shardlight/base/error.h"

namespace shardlight {
namespace {

TEST(Printable, LeavesTextAndEscapesControls) {
  EXPECT_EQ(printable("config.json"), "config.json");
  EXPECT_EQ(printable("\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("a\x1b[31m\nb\x7f"), "a\\x1b[31m\\x0ab\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                      // C1 CSI
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");  // not UTF-8
  EXPECT_EQ(printable("a\nb", true), "a\nb");
}

TEST(Printable, CutsTheMiddleOfLongText) {
  const std::string cut = printable(std::string(3'000'000, 'x') + "end");
  EXPECT_LT(cut.size(), 2 * kPrintableBytes);
  EXPECT_TRUE(cut.ends_with("end"));
  EXPECT_NE(cut.find(" … "), std::string::npos);
}

TEST(Printable, IsWhatErrorsAreMadeOf) {
  const Error error = Error::user("\x1b]0;x\x07key", "\x1b[2J", "one line");
  EXPECT_EQ(error.message().find('\x1b'), std::string::npos);
  EXPECT_EQ(error.value(), "\x1b[2J");  // as it was, for programs
}

}  // namespace
}  // namespace shardlight
