#include "shardlight/io/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>

#include "shardlight/io/mapped_file.h"

namespace shardlight::io {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, and gzip's header only
constexpr std::size_t kMostInput = std::size_t{1} << 30;

class Inflater {
 public:
  Inflater() { started_ = ::inflateInit2(&stream_, kGzipWindow) == Z_OK; }
  ~Inflater() {
    if (started_) ::inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater(Inflater&&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  Inflater& operator=(Inflater&&) = delete;

  // Empty if all went well, else what is wrong.
  std::string inflate(std::span<const std::byte> input, Bytes max, std::string& output) {
    if (!started_) return "zlib has no memory";
    std::array<char, 1 << 16> piece{};
    int code = Z_OK;
    while (code != Z_STREAM_END || !input.empty()) {
      if (code == Z_STREAM_END) ::inflateReset(&stream_);  // the next member
      const std::size_t given = std::min(input.size(), kMostInput);
      // zlib does not write to its input, but its interface is older than const.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
      stream_.avail_in = static_cast<uInt>(given);
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = piece.size();
      code = ::inflate(&stream_, Z_NO_FLUSH);
      input = input.subspan(given - stream_.avail_in);
      if (code == Z_BUF_ERROR) return "cut short";
      if (code != Z_OK && code != Z_STREAM_END) {
        return fmt::format("not gzip, or damaged ({})",
                           stream_.msg != nullptr ? stream_.msg : "no detail");
      }
      output.append(piece.data(), piece.size() - stream_.avail_out);
      if (output.size() > static_cast<std::size_t>(max.value())) {
        return fmt::format("holds more than {} bytes; at most that many are read", max.value());
      }
    }
    return {};
  }

 private:
  z_stream stream_{};
  bool started_ = false;
};

}  // namespace

Result<std::string> read_gzip(const std::string& path, Bytes max) {
  SHARDLIGHT_TRY(const MappedFile file, MappedFile::open(path));
  std::string text;
  const std::string wrong = Inflater().inflate(file.bytes(), max, text);
  if (wrong.empty()) return text;
  return Failure(Error::environment({.operation = "reading " + path}, wrong, Unusable::kOperation));
}

}  // namespace shardlight::io
