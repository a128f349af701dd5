// One of two ranks with a network between them, for two_hosts.sh: link_rank INTERFACE
// BYTES_A_SECOND gathers and reduces shards of 16 MiB, and compares time with what the link can do,
// and the bytes that the transport counts with those of the interface. Rank 0 prints both; the exit
// code is 1 where one of them is not as it should be.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "shardlight/comm/mpi/mpi_world.h"

namespace {

using namespace shardlight;        // NOLINT(google-build-using-namespace): a program
using namespace shardlight::comm;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kShardBytes = std::int64_t{16} << 20;
constexpr int kCalls = 9;
// Headers of Ethernet, IP and TCP are 66 bytes in 1514, acknowledgements and our messages a little.
constexpr double kOverhead = 0.08;
constexpr double kSlower = 0.15;

Deadline ample() { return Deadline(Seconds(60)); }

void must(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message());
  std::_Exit(1);
}

struct Measured {
  double seconds = 0;  // the median call's
  double bytes_sent = 0;
  double bytes_counted = 0;
};

double interface_bytes(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/statistics/tx_bytes");
  double bytes = 0;
  file >> bytes;
  return bytes;
}

// What rank 0's host sends: what the other rank reads of it, and what it adds to the other's sums.
double counted(Transport& transport) {
  const TrafficCount traffic = transport.traffic();
  const bool first = transport.rank() == Rank(0);
  std::vector<double> bytes = {
      static_cast<double>((first ? traffic.reduced : traffic.gathered).value())};
  must(transport.all_reduce(bytes, Combine::kSum, ample()));
  return bytes[0];
}

Measured measured(Transport& transport, const std::string& interface,
                  const std::function<void(int)>& call) {
  call(0);
  Measured result;
  const double counted_before = counted(transport);
  must(transport.barrier(ample()));
  const double sent_before = interface_bytes(interface);
  std::vector<double> seconds;
  for (int i = 1; i <= kCalls; ++i) {
    must(transport.barrier(ample()));
    const auto begin = Deadline::Clock::now();
    call(i);
    must(transport.barrier(ample()));
    seconds.push_back(Seconds(Deadline::Clock::now() - begin).count());
  }
  result.bytes_sent = interface_bytes(interface) - sent_before;
  result.bytes_counted = counted(transport) - counted_before;
  std::nth_element(seconds.begin(), seconds.begin() + kCalls / 2, seconds.end());
  result.seconds = seconds[kCalls / 2];
  return result;
}

bool good(const char* what, const Measured& measured, double bytes_a_second) {
  const double limit = static_cast<double>(kShardBytes) / bytes_a_second;
  const double wanted = static_cast<double>(kShardBytes * kCalls);
  fmt::print(
      "{}: {:.1f} ms a call, {:.2f} times the link's {:.1f}; {:.0f} bytes counted, {:.0f} "
      "sent, {:+.1f} %\n",
      what, 1e3 * measured.seconds, measured.seconds / limit, 1e3 * limit, measured.bytes_counted,
      measured.bytes_sent, 100 * (measured.bytes_sent / measured.bytes_counted - 1));
  return measured.bytes_counted == wanted && measured.bytes_sent >= measured.bytes_counted &&
         measured.bytes_sent < (1 + kOverhead) * measured.bytes_counted &&
         measured.seconds < (1 + kSlower) * limit;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string interface = argv[1];
  const double bytes_a_second = std::stod(argv[2]);
  UnitSpec unit{.name = "u", .slices = {Count(kShardBytes / 4), Count(kShardBytes / 4)}};
  auto made = connect_mpi({unit}, ample());
  if (!made) {
    fmt::print(stderr, "{}\n", made.error().message());
    return 1;
  }
  Transport& transport = **made;
  std::vector<std::byte> whole(static_cast<std::size_t>(2 * kShardBytes));
  const std::vector<float> gradient(static_cast<std::size_t>(kShardBytes / 2));
  const GradientPart all{.elements = unit.elements(), .data = gradient.data()};
  const Measured gathers = measured(transport, interface, [&](int i) {
    must(transport.publish(0, i + 1));
    must(transport.gather(0, i + 1, whole, ample()));
  });
  const Measured reduces = measured(transport, interface, [&](int i) {
    must(transport.reduce(0, i, true, {.parts = {&all, 1}}, ample()));
    if (!transport.reduced(0, i, ample())) std::_Exit(1);
    must(transport.release(0, i));
  });
  if (transport.rank() != Rank(0)) return 0;
  const bool both =
      good("all-gather", gathers, bytes_a_second) & good("reduce-scatter", reduces, bytes_a_second);
  return both ? 0 : 1;
}
