// Memory that all ranks of a transport see: anonymous for threads, a memfd for processes. A memfd
// has no name, so nothing is left behind however the ranks end. Zeroed at first; unmapped by its
// owner's destruction.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "shardlight/base/quantity.h"
#include "shardlight/base/result.h"

namespace shardlight::comm {

// A file descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

class Segment {
 public:
  // For threads of this process, and children it forks later.
  static Result<Segment> anonymous(Bytes size);
  // A new memfd, and a mapping of one (the descriptor may be closed afterwards).
  static Result<Descriptor> create_file(Bytes size);
  static Result<Segment> of_file(const Descriptor& file, Bytes size);
  // A mapping that writing to is a segmentation fault.
  static Result<Segment> of_file_to_read(const Descriptor& file, Bytes size);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  Bytes size() const { return size_; }

  // Faults pages in for writing now; first touch costs about a second a gigabyte. Best effort.
  void populate(Bytes begin, Bytes length) const;

 private:
  Segment(std::byte* data, Bytes size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  Bytes size_;
};

}  // namespace shardlight::comm
