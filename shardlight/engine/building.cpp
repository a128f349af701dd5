#include "shardlight/engine/building.h"

#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardlight/engine/agreement.h"
#include "shardlight/engine/operator_inputs.h"
#include "shardlight/engine/random_state.h"
#include "shardlight/memory/pages.h"

namespace shardlight::engine {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10;

using memory::page_bytes;

std::uint64_t hash_of(const std::byte* data, std::size_t size) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(data), size});
}

Bytes bytes_of(std::size_t size) { return Bytes(static_cast<std::int64_t>(size)); }

Error no_memory(std::size_t bytes) {
  return Error::environment({.rank = {}, .unit = "", .operation = "build"},
                            "no memory for " + std::to_string(bytes) + " bytes",
                            Unusable::kOperation);
}

thread_local Building* building_of_thread = nullptr;

constexpr const char* kAway =
    "memory of a model that is being built was read without an operator while it was away: read it "
    "in an operator, or after Engine::build";
constexpr const char* kLost = "memory of a model whose building failed was lost with it";

}  // namespace

// A run of pages, with one before them for what torch's meter puts in front of memory.
struct Building::Piece {
  Building* building = nullptr;  // null once it is the caller's
  std::int64_t birth = 0;
  std::byte* data = nullptr;
  std::size_t size = 0;                                              // whole pages
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;  // once it was seen
  at::DataPtr pointer;                                               // the storage's, while away
  bool here = true;
  int uses = 0;  // by operators that run
  std::int64_t last_use = 0;

  // It can only go once its storage is known.
  void see(const at::Tensor& tensor) {
    if (!storage) storage = tensor.storage().getWeakStorageImpl();
  }
  std::size_t begin_of(std::int64_t rank, std::int64_t world) const {
    const std::size_t pages = size / page_bytes();
    return pages * static_cast<std::size_t>(rank) / static_cast<std::size_t>(world) * page_bytes();
  }
  std::span<std::byte> part(std::int64_t rank, std::int64_t world) const {
    const std::size_t begin = begin_of(rank, world);
    return {data + begin, begin_of(rank + 1, world) - begin};
  }
};

struct Building::Uses : at::ObserverContext {
  std::vector<std::int64_t> births;
};

Building::Building(comm::Transport& transport, std::shared_ptr<memory::Account> account,
                   std::optional<Bytes> most, Seconds deadline)
    : transport_(&transport),
      rank_(transport.rank().value()),
      world_(transport.world()),
      account_(std::move(account)),
      most_(most),
      deadline_(deadline) {}

Result<std::unique_ptr<Building>> Building::begin(comm::Transport& transport,
                                                  std::shared_ptr<memory::Account> account,
                                                  std::optional<Bytes> most, Seconds deadline) {
  if (building_of_thread != nullptr) {
    return user_error("build", "within another build", "one model at a time");
  }
  std::unique_ptr<Building> building(new Building(transport, std::move(account), most, deadline));
  SHARDLIGHT_TRY_STATUS(building->compare_random_states("before"));
  building_of_thread = building.get();
  building->callback_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&Building::before_operator, &Building::after_operator)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION}));
  set_large_memory(building.get());
  return building;
}

void Building::leave() {
  if (!callback_) return;
  set_large_memory(nullptr);
  at::removeCallback(*std::exchange(callback_, std::nullopt));
  building_of_thread = nullptr;
}

Building::~Building() {
  leave();
  for (const auto& [birth, piece] : pieces_) {
    count(*piece, &memory::Account::remove);
    piece->building = nullptr;
    const auto storage =
        piece->here ? c10::intrusive_ptr<c10::StorageImpl>() : piece->storage->lock();
    if (storage) storage->release_data_and_set_meta_custom_data_ptr_error_msg_(kLost);
  }
}

// What the piece takes of this rank's memory.
void Building::count(const Piece& piece, void (memory::Account::*how)(memory::Tag, Bytes)) {
  if (piece.here) return (*account_.*how)(memory::Tag::kGathered, bytes_of(piece.size));
  (*account_.*how)(memory::Tag::kParameters, bytes_of(piece.part(rank_, world_).size()));
}

Status Building::end() {
  leave();
  if (error_) return Failure(*error_);
  SHARDLIGHT_TRY_STATUS(compare_histories());
  return compare_random_states("after");
}

// Of all pieces that were made and used.
Status Building::compare_histories() {
  const auto bytes = std::as_bytes(std::span(&history_, 1));
  SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, {bytes}, deadline()));
  if (!differs) return {};
  SHARDLIGHT_TRY_STATUS(compare_random_states("during"));
  return user_error("build", "of a model that is not made alike on all ranks",
                    "the same operators on the same sizes and values in the same order");
}

void Building::remember(std::uint64_t what) {
  history_ = comm::hash_of_text({reinterpret_cast<const char*>(&what), sizeof what}, history_);
}

Status Building::compare_random_states(const char* when) {
  const at::DisableRecordFunctionGuard unrecorded;
  const at::Tensor state = random_state();
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(state.const_data_ptr()),
                                         state.nbytes());
  SHARDLIGHT_TRY(const auto differs, first_difference(*transport_, {bytes}, deadline()));
  if (!differs) return {};
  return user_error("build", std::string("with other random states ") + when + " it on some ranks",
                    "torch::manual_seed(…) with one seed on all ranks, and a model that is made "
                    "alike on all of them");
}

at::DataPtr Building::allocate(std::size_t bytes) {
  if (bytes < kLeast || world_ == 1) return {};
  const std::size_t size = memory::whole_pages(bytes);
  std::byte* const region = memory::map_pages(page_bytes() + size);
  if (region == nullptr) {
    if (!error_) error_ = no_memory(size);
    return {};
  }
  auto piece = std::make_unique<Piece>();
  piece->building = this;
  piece->birth = births_++;
  piece->data = region + page_bytes();
  piece->size = size;
  piece->last_use = ++uses_;
  remember(size);
  pieces_.emplace(piece->birth, piece.get());
  count(*piece, &memory::Account::add);
  whole_ += bytes_of(size);
  largest_ = std::max(largest_, bytes_of(size));
  return {piece->data, piece.release(), &end_piece, c10::DeviceType::CPU};
}

// Of the tensor that has it, wherever and whenever that ends.
void Building::end_piece(void* memory) {
  const std::unique_ptr<Piece> piece(static_cast<Piece*>(memory));
  if (Building* const building = piece->building) {
    building->pieces_.erase(piece->birth);
    building->remember(~static_cast<std::uint64_t>(piece->birth));
    building->count(*piece, &memory::Account::remove);
    if (piece->here) building->whole_ = building->whole_ - bytes_of(piece->size);
  }
  ::munmap(piece->data - page_bytes(), page_bytes() + piece->size);
}

// The storage's own pointer ends with it, and so the piece.
void Building::end_piece_away(void* memory) {
  const at::DataPtr pointer = std::move(static_cast<Piece*>(memory)->pointer);
}

Building::Piece* Building::piece_of(const at::Tensor& tensor) {
  const auto* impl = tensor.unsafeGetTensorImpl();
  if (!impl->has_storage()) return nullptr;
  const auto& pointer =
      impl->unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (pointer.get_deleter() == &end_piece_away) return static_cast<Piece*>(pointer.get_context());
  const at::DataPtr* const whole = beneath(pointer);
  if (whole == nullptr || whole->get_deleter() != &end_piece) return nullptr;
  return static_cast<Piece*>(whole->get_context());
}

std::unique_ptr<at::ObserverContext> Building::before_operator(const at::RecordFunction& function) {
  // Torch takes callbacks along to threads that go on with an operator's work.
  if (building_of_thread == nullptr) return nullptr;
  Building& building = *building_of_thread;
  auto uses = std::make_unique<Uses>();
  for_each_input(function, [&](const at::Tensor& tensor, std::size_t /*argument*/) {
    Piece* const piece = piece_of(tensor);
    if (piece == nullptr || piece->building != &building) return;
    piece->see(tensor);
    if (traits_of(function).only_views) return;
    if (auto brought = building.bring(*piece); !brought) return;
    ++piece->uses;
    uses->births.push_back(piece->birth);
  });
  ++building.running_;
  return uses;
}

void Building::after_operator(const at::RecordFunction& function, at::ObserverContext* context) {
  Building* const building = building_of_thread;
  if (building == nullptr || context == nullptr) return;
  for (const c10::IValue& value : function.outputs()) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      Piece* const piece = piece_of(tensor);
      if (piece != nullptr && piece->building == building) piece->see(tensor);
    });
  }
  for (const std::int64_t birth : static_cast<Uses*>(context)->births) {
    const auto piece = building->pieces_.find(birth);
    if (piece != building->pieces_.end()) --piece->second->uses;
  }
  // Not within an operator: it may hold pointers of its own into what it has made.
  if (--building->running_ > 0) return;
  const Bytes largest = building->largest_;
  const Bytes most = building->most_.value_or(largest + largest);
  building->make_room(most > largest ? most - largest : Bytes(0));
}

void Building::set_here(Piece& piece, bool here) {
  count(piece, &memory::Account::remove);
  piece.here = here;
  count(piece, &memory::Account::add);
  whole_ = here ? whole_ + bytes_of(piece.size) : whole_ - bytes_of(piece.size);
}

void Building::make_room(Bytes most) {
  while (whole_ > most && !error_) {
    Piece* oldest = nullptr;
    for (const auto& [birth, piece] : pieces_) {
      if (!piece->here || piece->uses > 0 || !piece->storage) continue;
      if (oldest == nullptr || piece->last_use < oldest->last_use) oldest = piece;
    }
    if (oldest == nullptr) return;
    send_away(*oldest);
  }
}

void Building::send_away(Piece& piece) {
  const auto storage = piece.storage->lock();
  const auto* whole = storage ? beneath(storage->_mutable_data_ptr_no_checks()) : nullptr;
  if (whole == nullptr || whole->get_context() != &piece) {
    piece.storage.reset();  // its memory is another's by now
    return;
  }
  remember(hash_of(piece.data, piece.size));
  const auto own = piece.part(rank_, world_);
  const auto give_back = [](std::byte* begin, std::byte* end) {
    if (end > begin) ::madvise(begin, static_cast<std::size_t>(end - begin), MADV_DONTNEED);
  };
  give_back(piece.data, own.data());
  give_back(own.data() + own.size(), piece.data + piece.size);
  // Where that fails, a pointer from before reads zeros in place of a fault.
  ::mprotect(piece.data, piece.size, PROT_NONE);
  piece.pointer =
      storage->set_data_ptr(at::DataPtr(nullptr, &piece, &end_piece_away, c10::DeviceType::CPU));
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(kAway);
  set_here(piece, false);
}

Status Building::bring(Piece& piece) {
  if (error_) return Failure(*error_);
  piece.last_use = ++uses_;
  remember(static_cast<std::uint64_t>(piece.birth));
  if (piece.here) return {};
  auto fetched = fetch(piece);
  if (!fetched) error_ = fetched.error();
  return fetched;
}

// The same on all ranks, which is why it needs nobody's leave to be written.
Status Building::fetch(Piece& piece) {
  SHARDLIGHT_TRY_STATUS(compare_histories());
  if (::mprotect(piece.data, piece.size, PROT_READ | PROT_WRITE) != 0) {
    return Failure(no_memory(piece.size));
  }
  for (std::int64_t rank = 0; rank < world_; ++rank) {
    const auto part = piece.part(rank, world_);
    if (part.empty()) continue;
    SHARDLIGHT_TRY_STATUS(transport_->broadcast(part, Rank(rank), deadline()));
  }
  const auto storage = piece.storage->lock();
  storage->clear_data_ptr_access_error_msg_();
  const at::DataPtr nothing = storage->set_data_ptr(std::move(piece.pointer));
  set_here(piece, true);
  return {};
}

void Building::let_go(Piece& piece) {
  pieces_.erase(piece.birth);
  piece.building = nullptr;
  whole_ = whole_ - bytes_of(piece.size);
  count(piece, &memory::Account::remove);
}

Status Building::bring(const at::Tensor& tensor) {
  Piece* const piece = piece_of(tensor);
  if (piece == nullptr || piece->building != this) return {};
  piece->see(tensor);
  return bring(*piece);
}

Status Building::release_all_but(const std::vector<at::Tensor>& tensors) {
  std::set<const Piece*> stays;
  for (const at::Tensor& tensor : tensors) stays.insert(piece_of(tensor));
  std::vector<Piece*> released;
  for (const auto& [birth, piece] : pieces_) {
    if (!stays.contains(piece)) released.push_back(piece);
  }
  for (Piece* const piece : released) {
    SHARDLIGHT_TRY_STATUS(bring(*piece));
    let_go(*piece);
  }
  make_room(Bytes(0));
  return {};
}

}  // namespace shardlight::engine
