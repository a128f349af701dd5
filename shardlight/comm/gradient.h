// What a transport does with a gradient that comes in parts (transport.h): refuse what is wrong,
// count bytes, and store or add what falls within a stretch of the unit. Every transport adds with
// these, so all keep the same rule for elements in no part. Pure but for the sums they are given;
// any thread.
#pragma once

#include "shardlight/comm/transport.h"

namespace shardlight::comm {

// A user error by field (`gradient.dtype`, `gradient.parts[2].begin`, …) unless the parts lie
// within the unit, ascend without overlap, and have data. No parts are right.
Status check_gradient(const UnitSpec& unit, const Gradient& gradient);

// Of all parts; of their elements that are not within [begin, begin + elements) of the unit.
Bytes bytes_of(const Gradient& gradient);
Bytes bytes_outside(const Gradient& gradient, Count begin, Count elements);

// What the unit's elements from `begin` on have to do with `sum`, which holds as many of them as it
// has: store, with 0 where there is no part; or add, which leaves those alone. The gradient has at
// least one part and passes check_gradient.
void store_parts(const SumSpan& sum, const Gradient& gradient, std::int64_t begin);
void add_parts(const SumSpan& sum, const Gradient& gradient, std::int64_t begin);

}  // namespace shardlight::comm
