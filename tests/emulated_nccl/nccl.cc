// libnccl.so.2 on the emulated driver (tests/emulated_cuda): communicators that do not block, and all-reduce of floats.
// The processes exchange through sockets in a folder, so they must be on one machine. Strict where the real library is
// undefined: a call that does not fit the others', memory that the GPU does not reach, another GPU's context and a
// stream that does not exist are errors; an all-reduce is enqueued only once ncclCommGetAsyncError has said so.
//
// By environment: EMULATED_NCCL_VERSION (22809); EMULATED_NCCL_REPORT (a file that gets, with the process's rank behind
// its name, how often each function was called); EMULATED_NCCL_FAIL (ncclAllReduce:2:3:1: the second call in process 1
// answers 3; without the last number in every process; counted anew when the text changes). Other names there:
// join_hang (joining never ends), hang (that all-reduce never begins), async (it ends the communicator with that code).
#include <dlfcn.h>
#include <sys/poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "comm/nccl_api.h"

namespace sparkpilot::nccl {
namespace {

enum : int { kCudaError = 1, kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6 };

std::string setting(const char* name, const char* otherwise = "") {
  const char* const value = std::getenv(name);
  return value && *value ? value : otherwise;
}

// --- failures that are asked for, and the report
class Calls {
 public:
  ~Calls() {
    const std::string report = setting("EMULATED_NCCL_REPORT");
    if (report.empty()) return;
    std::ofstream file(report + rank());
    for (const auto& [name, count] : all_) {
      if (name.starts_with("nccl")) file << "call " << name << " " << count << "\n";
    }
  }
  // The code that this call is to answer; 0: none.
  int count(const char* name) {
    const std::lock_guard lock(mutex_);
    ++all_[name];
    const std::string now = setting("EMULATED_NCCL_FAIL");
    if (now != failing_) counts_.clear(), failing_ = now;
    const int nth = ++counts_[name];
    char what[64] = {};
    int at = 0, code = 0, of = -1;
    if (std::sscanf(now.c_str(), "%63[^:]:%d:%d:%d", what, &at, &code, &of) < 3) return 0;
    return std::string(name) == what && nth == at && (of < 0 || of == std::stoi(rank())) ? code : 0;
  }

 private:
  static std::string rank() { return setting("OMPI_COMM_WORLD_RANK", "0"); }
  std::mutex mutex_;
  std::string failing_;
  std::map<std::string, int> all_, counts_;
} calls;

std::mutex last_error_mutex;
std::string last_error;  // of this process
int fail(int code, const std::string& why) {
  const std::lock_guard lock(last_error_mutex);
  last_error = why;
  std::fprintf(stderr, "emulated NCCL: %s\n", why.c_str());
  return code;
}

template <typename Function>
Function* of_driver(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

// --- processes that exchange: the first reads what the others have, and answers
struct Hello {
  int rank, ranks, version;
  char gpu[320];  // and its machine
};
struct Message {
  int64_t number;  // of the communicator's operations
  uint64_t count;
  int type, operation, code;
  bool operator==(const Message&) const = default;
};

struct Operation {
  Message message;
  float* values;  // on the GPU
  std::vector<float> data;
  bool begun = false;              // by the stream
  std::atomic<bool> done = false;  // or given up: `data` is empty
};

bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent, bytes -= static_cast<size_t>(sent);
  }
  return true;
}
bool receive_all(int socket, void* data, size_t bytes) {
  return bytes == 0 || ::recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

class Communicator {
 public:
  Communicator(int ranks, int rank, std::string place, std::string of_gpu)
      : gpu(std::move(of_gpu)), ranks_(ranks), rank_(rank), place_(std::move(place)), worker_([this] { work(); }) {}
  // Ends what is under way: streams go on without its results.
  ~Communicator() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    ready_.notify_all();
    worker_.join();
    for (const int socket : sockets_) ::close(socket);
    for (const auto& operation : begun_) give_up(*operation);
  }

  const std::string gpu;
  std::atomic<int> state = kInProgress;
  // An all-reduce that is not enqueued yet, and how often its state will still be said to be in progress.
  std::shared_ptr<Operation> next;
  cuda::StreamHandle stream = nullptr;
  int says_in_progress = 0;
  int64_t operations = 0;

  // The stream has come to it.
  void begin(const std::shared_ptr<Operation>& operation) {
    const std::lock_guard lock(mutex_);
    begun_.push_back(operation);
    if (calls.count("hang") == 0) queue_.push_back(operation);
    ready_.notify_all();
  }
  // Those that a stream has not done yet.
  bool is_busy() {
    const std::lock_guard lock(mutex_);
    std::erase_if(begun_, [](const auto& operation) { return operation->done.load(); });
    return !begun_.empty() || next;
  }
  static void give_up(Operation& operation) {
    if (operation.done) return;
    operation.data.clear();
    operation.done = true;
  }

 private:
  void work() {
    state = join();
    std::unique_lock lock(mutex_);
    while (!ending_ && state == kSuccess) {
      ready_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (ending_) return;
      const std::shared_ptr<Operation> operation = queue_.front();
      queue_.pop_front();
      lock.unlock();
      const int wanted = calls.count("async");
      const int code = wanted ? wanted : exchange(*operation);
      lock.lock();
      if (code == kSuccess) operation->done = true;
      else state = code;
    }
  }

  void keep(int socket) {
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    if (ending_) ::shutdown(socket, SHUT_RDWR);
  }
  bool is_ending() {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  int join() {
    while (calls.count("join_hang") != 0 || hangs_) {
      hangs_ = true;
      if (is_ending()) return kRemoteError;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Hello own{rank_, ranks_, std::atoi(setting("EMULATED_NCCL_VERSION", "22809").c_str()), {}};
    char host[200] = {};
    ::gethostname(host, sizeof host - 1);
    std::snprintf(own.gpu, sizeof own.gpu, "%s %s", setting("NCCL_HOSTID", host).c_str(), gpu.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, place_.c_str(), sizeof address.sun_path - 1);
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    return rank_ == 0 ? gather(own, where) : ask(own, where);
  }

  int gather(const Hello& own, const sockaddr* where) {
    const int listening = ::socket(AF_UNIX, SOCK_STREAM, 0);
    keep(listening);
    const bool listens =
        ::bind(listening, where, sizeof(sockaddr_un)) == 0 && ::listen(listening, ranks_) == 0;  // not once it ends
    std::map<int, Hello> all{{0, own}};
    others_.resize(static_cast<size_t>(ranks_), -1);
    int code = kSuccess;
    while (listens && static_cast<int>(all.size()) < ranks_) {
      pollfd waiting{listening, POLLIN, 0};
      if (is_ending()) break;
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const int socket = ::accept(listening, nullptr, nullptr);
      Hello hello{};
      if (socket < 0) break;
      keep(socket);
      if (!receive_all(socket, &hello, sizeof hello)) break;
      for (const auto& [rank, other] : all) {
        if (rank == hello.rank || hello.rank >= ranks_ || hello.ranks != ranks_)
          code = fail(kInvalidUsage, "processes that do not fit together");
        if (std::string(other.gpu) == hello.gpu) code = fail(kInvalidUsage, "Duplicate GPU detected");
        if (other.version != hello.version) code = fail(kInvalidUsage, "Mismatched NCCL version detected");
      }
      all[hello.rank] = hello;
      others_.at(static_cast<size_t>(hello.rank)) = socket;
    }
    ::unlink(place_.c_str());
    if (static_cast<int>(all.size()) < ranks_) return kRemoteError;
    for (const int socket : others_) {
      if (socket >= 0 && !send_all(socket, &code, sizeof code)) return kRemoteError;
    }
    return code;
  }

  int ask(const Hello& own, const sockaddr* where) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    keep(socket);
    while (::connect(socket, where, sizeof(sockaddr_un)) != 0) {
      if (is_ending()) return kRemoteError;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    others_ = {socket};
    int code = kRemoteError;
    if (!send_all(socket, &own, sizeof own) || !receive_all(socket, &code, sizeof code)) return kRemoteError;
    return code;
  }

  int exchange(Operation& operation) {
    std::vector<float>& own = operation.data;
    const size_t bytes = own.size() * sizeof(float);
    Message message = operation.message;
    if (rank_ != 0) {
      const int first = others_[0];
      if (!send_all(first, &message, sizeof message) || !send_all(first, own.data(), bytes) ||
          !receive_all(first, &message, sizeof message))
        return kRemoteError;
      if (message.code) return message.code;
      return receive_all(first, own.data(), bytes) ? int{kSuccess} : int{kRemoteError};
    }
    const float share = message.operation == kAverage ? 1.0f / static_cast<float>(ranks_) : 1.0f;
    for (float& value : own) value *= share;
    std::vector<float> theirs(own.size());
    for (const int socket : others_) {
      Message other{};
      if (socket < 0) continue;
      if (!receive_all(socket, &other, sizeof other)) return kRemoteError;
      if (other != message) {
        message.code = fail(kInvalidUsage, "the processes call different operations");
        break;
      }
      if (!receive_all(socket, theirs.data(), bytes)) return kRemoteError;
      for (size_t i = 0; i < own.size(); ++i) own[i] += theirs[i] * share;
    }
    for (const int socket : others_) {
      if (socket < 0) continue;
      if (!send_all(socket, &message, sizeof message)) return kRemoteError;
      if (message.code == kSuccess && !send_all(socket, own.data(), bytes)) return kRemoteError;
    }
    return message.code;
  }

  const int ranks_, rank_;
  const std::string place_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Operation>> queue_;
  std::vector<std::shared_ptr<Operation>> begun_;
  std::vector<int> sockets_;  // to be closed
  std::vector<int> others_;   // by rank in the first process; the first process in the others
  bool ending_ = false, hangs_ = false;
  std::thread worker_;  // the last: it uses the others
};

std::mutex all_mutex;
std::map<CommHandle, std::shared_ptr<Communicator>> all;

std::shared_ptr<Communicator> find(CommHandle handle) {
  const std::lock_guard lock(all_mutex);
  const auto found = all.find(handle);
  return found == all.end() ? nullptr : found->second;
}

// As the driver's work: copies the values out, waits, copies the result back.
struct Enqueued {
  std::weak_ptr<Communicator> communicator;
  std::shared_ptr<Operation> operation;
};
int run_enqueued(void* with) {
  auto* const work = static_cast<Enqueued*>(with);
  Operation& operation = *work->operation;
  if (!operation.begun) {
    operation.begun = true;
    operation.data.assign(operation.values, operation.values + operation.message.count);
    if (const auto communicator = work->communicator.lock()) communicator->begin(work->operation);
    else Communicator::give_up(operation);
  }
  if (!operation.done) return cuda::kNotReady;
  if (!operation.data.empty()) std::memcpy(operation.values, operation.data.data(), operation.data.size() * 4);
  delete work;
  return cuda::kSuccess;
}

int enqueue(const std::shared_ptr<Communicator>& communicator) {
  auto* const enqueue_on =
      of_driver<int(cuda::StreamHandle, const char*, int (*)(void*), void*)>("emulated_cuda_enqueue");
  const std::shared_ptr<Operation> operation = std::move(communicator->next);
  communicator->next = nullptr;
  auto work = std::make_unique<Enqueued>(Enqueued{communicator, operation});
  if (const int error = enqueue_on(communicator->stream, "ncclAllReduce", run_enqueued, work.get()))
    return fail(kCudaError, "an all-reduce on a stream: CUDA error " + std::to_string(error));
  static_cast<void>(work.release());  // the driver has it
  return kSuccess;
}

std::string current_gpu() {
  auto* const ask = of_driver<const char*()>("emulated_cuda_current_gpu");
  const char* const gpu = ask ? ask() : nullptr;
  return gpu ? gpu : "";
}

int remove(CommHandle handle) {
  std::shared_ptr<Communicator> gone = find(handle);
  if (!gone) return fail(kInvalidArgument, "no such communicator");
  const std::lock_guard lock(all_mutex);
  all.erase(handle);
  return kSuccess;
}

}  // namespace

#define ENTER(name) \
  if (const int code = calls.count(#name)) return code

#pragma GCC visibility push(default)
extern "C" {

int ncclGetVersion(int* version) {
  ENTER(ncclGetVersion);
  return *version = std::atoi(setting("EMULATED_NCCL_VERSION", "22809").c_str()), kSuccess;
}

int ncclGetUniqueId(UniqueId* id) {
  ENTER(ncclGetUniqueId);
  static std::atomic<int> made = 0;
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "%s/emulated_nccl_%d_%d", setting("TMPDIR", "/tmp").c_str(), ::getpid(),
                made++);
  return kSuccess;
}

int ncclCommInitRankConfig(CommHandle* comm, int ranks, UniqueId id, int rank, Config* config) {
  ENTER(ncclCommInitRankConfig);
  if (config->size < sizeof(Config) || config->magic != 0xcafebeef || config->version < kLeastVersion)
    return fail(kInvalidArgument, "a config that was not initialised");
  if (config->blocking != 0) return fail(kInvalidArgument, "communicators that block are not emulated");
  if (ranks < 1 || rank < 0 || rank >= ranks) return fail(kInvalidArgument, "a rank out of range");
  const std::string gpu = current_gpu();
  if (gpu.empty()) return fail(kCudaError, "no context is current");
  const auto made = std::make_shared<Communicator>(ranks, rank, id.bytes, gpu);
  const std::lock_guard lock(all_mutex);
  *comm = reinterpret_cast<CommHandle>(made.get());
  all[*comm] = made;
  return kInProgress;
}

int ncclCommGetAsyncError(CommHandle comm, int* state) {
  ENTER(ncclCommGetAsyncError);
  const auto communicator = find(comm);
  if (!communicator) return fail(kInvalidArgument, "no such communicator");
  *state = communicator->state;
  if (*state != kSuccess || !communicator->next) return kSuccess;
  if (communicator->says_in_progress-- > 0) return *state = kInProgress, kSuccess;
  *state = enqueue(communicator);
  return kSuccess;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, CommHandle comm,
                  cuda::StreamHandle stream) {
  ENTER(ncclAllReduce);
  const auto communicator = find(comm);
  if (!communicator) return fail(kInvalidArgument, "no such communicator");
  if (communicator->state == kInProgress || communicator->next)
    return fail(kInvalidArgument, "a communicator that is not ready");
  if (communicator->state != kSuccess) return communicator->state;
  if (type != kFloat32 || (operation != kAverage && operation != 0) || from != to)
    return fail(kInvalidArgument, "only the sum and the mean of floats in place are emulated");
  if (current_gpu() != communicator->gpu) return fail(kInvalidUsage, "another GPU's context is current");
  auto* const reaches = of_driver<int(cuda::DevicePointer, size_t)>("emulated_cuda_reaches");
  if (reaches(reinterpret_cast<cuda::DevicePointer>(to), count * sizeof(float)) != cuda::kSuccess)
    return fail(kInvalidArgument, "memory that is not the GPU's");
  communicator->next = std::make_shared<Operation>();
  communicator->next->message = {};
  communicator->next->message.number = communicator->operations++;
  communicator->next->message.count = count;
  communicator->next->message.type = type;
  communicator->next->message.operation = operation;
  communicator->next->values = static_cast<float*>(to);
  communicator->stream = stream;
  communicator->says_in_progress = 1;
  return kInProgress;
}

int ncclCommAbort(CommHandle comm) {
  const int asked = calls.count("ncclCommAbort");  // it ends all the same
  const int code = remove(comm);
  return asked ? asked : code;
}

int ncclCommDestroy(CommHandle comm) {
  const int asked = calls.count("ncclCommDestroy");
  if (const auto communicator = find(comm); communicator && communicator->is_busy())
    return fail(kInvalidUsage, "a communicator was destroyed before its work had ended");
  const int code = remove(comm);
  return asked ? asked : code;
}

const char* ncclGetErrorString(int error) {
  switch (error) {
    case kSuccess: return "no error";
    case kCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case 2: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case 3: return "internal error - please report this issue to the NCCL developers";
    case kInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case kInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case kRemoteError: return "remote process exited or there was a network error";
    case kInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(CommHandle) {
  static thread_local std::string copy;
  const std::lock_guard lock(last_error_mutex);
  return (copy = last_error).c_str();
}
}
#pragma GCC visibility pop

}  // namespace sparkpilot::nccl
