// The scope of Engine::build as an object, where what makes the model is no function, as in
// Python's `with shardlight.building():`. It begins as it is made; what Engine::build says of the
// code in it holds here. After end() parameters may be away until an engine is made of it and of
// the model. One thread; all ranks together; one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "shardlight/engine/options.h"

namespace shardlight::engine {

class BuildingScope {
 public:
  // All ranks begin with rank 0's random state, and each has its own again at the end; else states
  // that differ are an error.
  enum class Random : std::uint8_t { kCompared, kOfRank0 };
  // Of options: ranks, gathered_bytes and deadline. Throws an Error, as Engine::build.
  explicit BuildingScope(const Options& options, Random random = Random::kCompared);
  // Without an engine, values that are away then are lost.
  ~BuildingScope();
  BuildingScope(BuildingScope&&) noexcept;
  BuildingScope& operator=(BuildingScope&&) = delete;
  BuildingScope(const BuildingScope&) = delete;
  BuildingScope& operator=(const BuildingScope&) = delete;

  // Torch's memory is its own again. Throws an Error: the first one of the scope; random numbers or
  // a model that differ from rank to rank.
  void end();
  // What went wrong in it; torch has only said that no memory came.
  std::optional<Error> error() const;

 private:
  friend class Engine;
  struct Parts;

  std::unique_ptr<Parts> parts_;
};

}  // namespace shardlight::engine
