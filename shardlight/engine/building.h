// The scope in which a model is made that one rank could not hold: what torch allocates on this
// thread meanwhile, from 64 KiB on, is ours from birth. Such a piece is whole while operators use
// it; when others need room, each rank keeps its part of the piece's pages and gives the rest back.
// All ranks run the same code from the same random state, so each has had every value, and what a
// later operator reads comes from the ranks that kept it. A piece keeps its address; while it is
// away, reading it through its tensor is an error, through an older pointer a fault.
// Internal to the engine. One thread; all ranks together.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "shardlight/comm/text_hash.h"
#include "shardlight/comm/transport.h"
#include "shardlight/engine/torch_meter.h"
#include "shardlight/memory/account.h"

namespace shardlight::engine {

class Building final : public LargeMemory {
 public:
  // The scope lasts until end(), or its own end. `most`: the cap of whole pieces; between
  // operators room for one of the largest stays free within it. Not given: twice the largest. One
  // operator may exceed it. The transport outlives the scope, or use() names another.
  // Errors (user): a random state that differs from rank to rank.
  static Result<std::unique_ptr<Building>> begin(comm::Transport& transport,
                                                 std::shared_ptr<memory::Account> account,
                                                 std::optional<Bytes> most, Seconds deadline);
  // What is away then is lost.
  ~Building() override;
  Building(const Building&) = delete;
  Building& operator=(const Building&) = delete;
  Building(Building&&) = delete;
  Building& operator=(Building&&) = delete;

  // Torch's memory is its own again. Errors: the first one of the scope; (user): ranks that drew
  // other random numbers than others.
  Status end();
  // From here on pieces come over another transport of the same ranks.
  void use(comm::Transport& transport) { transport_ = &transport; }
  // The tensor's memory becomes whole; other memory than that of a piece is so already.
  Status bring(const at::Tensor& tensor);
  // All pieces but those of these tensors become whole and their tensors' own, off the account;
  // those of these tensors go away.
  Status release_all_but(const std::vector<at::Tensor>& tensors);

  // What went wrong so far.
  const std::optional<Error>& error() const { return error_; }

  at::DataPtr allocate(std::size_t bytes) override;

 private:
  struct Piece;
  struct Uses;

  Building(comm::Transport& transport, std::shared_ptr<memory::Account> account,
           std::optional<Bytes> most, Seconds deadline);
  static void end_piece(void* piece);
  static void end_piece_away(void* piece);
  static Piece* piece_of(const at::Tensor& tensor);
  static std::unique_ptr<at::ObserverContext> before_operator(const at::RecordFunction& function);
  static void after_operator(const at::RecordFunction& function, at::ObserverContext* context);

  Status compare_random_states(const char* when);
  Status compare_histories();
  void remember(std::uint64_t what);
  void leave();
  comm::Deadline deadline() const { return comm::Deadline(deadline_); }
  void count(const Piece& piece, void (memory::Account::*how)(memory::Tag, Bytes));
  void set_here(Piece& piece, bool here);
  void let_go(Piece& piece);
  Status bring(Piece& piece);
  Status fetch(Piece& piece);
  void make_room(Bytes most);
  void send_away(Piece& piece);

  comm::Transport* transport_;
  std::int64_t rank_, world_;
  std::shared_ptr<memory::Account> account_;
  std::optional<Bytes> most_;
  Seconds deadline_;
  std::map<std::int64_t, Piece*> pieces_;  // by birth
  Bytes whole_, largest_;
  std::int64_t births_ = 0, uses_ = 0;
  std::uint64_t history_ = comm::kNoText;
  int running_ = 0;  // operators within each other
  std::optional<at::CallbackHandle> callback_;
  std::optional<Error> error_;
};

}  // namespace shardlight::engine
