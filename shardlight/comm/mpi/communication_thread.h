// The thread of a process that makes all its calls of MPI, as MPI asks for one such thread at most:
// it starts MPI, carries messages to and from the exchanges, keeps up the heartbeat, and ends MPI
// when the process does. It polls while something is under way, and else naps for up to 200 us, so
// that a wait costs its process one percent of a core.
//
// One a process, as MPI is; any thread may call it. Internal to comm/mpi.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "shardlight/comm/mpi/exchange.h"

namespace shardlight::comm {

class CommunicationThread {
 public:
  // Made when first asked for. When the process ends it says goodbye to the other ranks and ends
  // MPI, once all of them do or are lost.
  static CommunicationThread& of_process();

  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread(CommunicationThread&&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;
  CommunicationThread& operator=(CommunicationThread&&) = delete;
  ~CommunicationThread();

  // Until MPI has been started, which it is when all processes of the job have asked for it. An
  // environment error of the operation connect.
  Status await_start(Deadline deadline);
  // The job's; once started.
  Rank rank() const;
  std::int64_t world() const;
  Bytes bytes_sent() const;  // Link's

  // Done in this order by the thread.
  void post(std::function<void()> task);
  // Until it has been done.
  void run(const std::function<void()>& task);

  // A new exchange, of the next epoch.
  Result<std::shared_ptr<Exchange>> open(std::vector<UnitSpec> units, const MpiOptions& options);

 private:
  class Loop;
  CommunicationThread();

  std::shared_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace shardlight::comm
