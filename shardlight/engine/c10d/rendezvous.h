// How the ranks of a process group find each other in their store before they exchange anything:
// every rank shows a card, rank 0 lays the cards of all together, and each rank takes the set that
// has its own. So attempts that some ranks did not join, and ranks that differ in how often they
// have tried, leave nothing behind that a later attempt could take for its own.
//
// Any thread; values. Internal to engine/c10d.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "shardlight/base/result.h"
#include "shardlight/comm/deadline.h"
#include "shardlight/engine/c10d/words.h"

namespace shardlight::engine {

struct Card {
  pid_t process = 0;
  std::string nonce;      // unlike that of any other card
  std::string host;       // the same where processes can name each other by number
  std::string objection;  // why this rank cannot connect after all; mostly empty
};

// How long a word in a store may take to come.
inline constexpr Seconds kAnswer{10};

// By rank, the cards of all, which have met once all ranks return. `words` are those of the group.
// A user error of the field `group` where this rank has met over it and has not parted, as calls of
// two transports would be taken for each other's; else environment errors of the operation connect:
// of who does not come, and of who objects.
Result<std::vector<Card>> rendezvous(Words& words, Rank rank, std::int64_t world,
                                     const std::string& objection, comm::Deadline deadline);

// This rank may meet over the group again.
void part(Words& words, Rank rank);

// Calls `found` again and again, ever less often, until it is true; false at the deadline.
bool await(comm::Deadline deadline, const std::function<bool()>& found);

}  // namespace shardlight::engine
