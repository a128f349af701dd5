// Units: what is gathered and reduced together. A unit is a run of consecutive parameters of one
// dtype and one requires_grad, laid out in a flat padded range of elements.
//
// Each parameter starts at a multiple of kGrainElements and the unit ends at one, so every cut of
// a unit into whole blocks falls on a whole vector counted from the parameter's start: element-wise
// kernels then give the bits they give on the whole parameter (docs/layout.md).
// Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/layout/parameter_table.h"

namespace shardlight::layout {

inline constexpr std::int64_t kGrainElements = 64;

using UnitIndex = std::size_t;

struct PlacedParameter {
  ParameterIndex parameter = 0;
  Count offset;    // in the unit, a multiple of kGrainElements
  Count elements;  // of the parameter
};

struct Unit {
  std::string name;  // of the first block or parameter in it, for messages; no two have the same
  DType dtype = DType::kFloat32;
  bool trainable = true;
  std::vector<PlacedParameter> parameters = {};  // by offset
  Count used = {};                               // elements of the members
  Count elements = {};                           // with padding, a multiple of kGrainElements

  Bytes bytes() const { return bytes_per_element(dtype) * elements.value(); }
};

struct UnitOptions {
  // A unit is closed at the next block boundary (block_of) once it holds this many bytes, so a
  // block is never split; parameters outside blocks are their own boundary. 0: a unit a block.
  Bytes bytes_min{1 << 20};
  // What an element counts for that; nothing: what its dtype says. A plan gives its precision's.
  std::optional<Bytes> bytes_per_element;
};

// Units by the order of their first parameter; every parameter is in exactly one. A last unit that
// stayed below bytes_min joins the one of its kind before it.
// Errors (user, `unit_bytes`): negative.
Result<std::vector<Unit>> build_units(const ParameterTable& table, const UnitOptions& options = {});

}  // namespace shardlight::layout
