#include "comm/nccl.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/error.h"

namespace sparkpilot {
namespace {

[[noreturn]] void fail_device(const std::string& text) { throw Error(ErrorKind::device, text); }

// As NCCL tells machines apart.
std::string machine_name() {
  if (const char* const given = std::getenv("NCCL_HOSTID"); given && *given) return std::string(given) + " ";
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return fmt::format("{} {} ", name, boot);
}

// What each process has, by rank.
std::vector<std::string> of_each(Comm& comm, const std::string& own) {
  std::vector<std::string> out;
  for (int rank = 0; rank < comm.size(); ++rank) out.push_back(comm.share(own, rank));
  return out;
}

// Why NCCL would refuse these processes; empty if it would not.
std::string refusal(const std::vector<std::string>& versions, const std::vector<std::string>& gpus) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (versions[i] != versions[0]) return fmt::format("process {} has {}, process 0 {}", i, versions[i], versions[0]);
    for (size_t j = 0; j < i; ++j) {
      if (gpus[i] == gpus[j]) return fmt::format("processes {} and {} have the same GPU", j, i);
    }
  }
  return {};
}

}  // namespace

NcclComm::NcclComm(const nccl::NcclApi& api, std::shared_ptr<GpuDevice> gpu, double patience)
    : api_(api), gpu_(std::move(gpu)), stream_(gpu_), patience_(patience) {}

NcclComm::~NcclComm() {
  if (comm_) api_.ncclCommDestroy(comm_);
}

// Ends what still runs on the GPU, so that nothing waits for it.
void NcclComm::give_up() {
  if (comm_) api_.ncclCommAbort(comm_);
  comm_ = nullptr;
}

void NcclComm::expect(const char* call, int result) const {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return;
  const char* const more = api_.ncclGetLastError(comm_);
  fail_device(fmt::format("{}: {}: {}{}", gpu_->facts().name, call, api_.ncclGetErrorString(result),
                          more && *more ? fmt::format(" ({})", more) : ""));
}

// Never inside a call that could wait for ever: a process that has gone shows as an error of the communicator, or as
// nothing at all.
void NcclComm::wait(const char* call, const std::function<bool()>& done) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    int state = nccl::kSuccess;
    expect("ncclCommGetAsyncError", api_.ncclCommGetAsyncError(comm_, &state));
    expect(call, state);
    if (state == nccl::kSuccess && done()) return;
    if (std::chrono::steady_clock::now() - start > std::chrono::duration<double>(patience_)) {
      fail_device(fmt::format("{}: {}: no end after {} s: another process or the network does not answer",
                              gpu_->facts().name, call, patience_));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void NcclComm::begin(int ranks, int rank, const nccl::UniqueId& id) {
  gpu_->api();  // NCCL takes the GPU of the current context
  nccl::Config config;
  const int result = api_.ncclCommInitRankConfig(&comm_, ranks, id, rank, &config);
  if (result != nccl::kSuccess && result != nccl::kInProgress) comm_ = nullptr;
  expect("ncclCommInitRankConfig", result);
  wait("ncclCommInitRankConfig", [] { return true; });
}

std::unique_ptr<NcclComm> NcclComm::join(Comm& comm, std::shared_ptr<GpuDevice> gpu, std::string& why_not,
                                         double patience) {
  std::unique_ptr<NcclComm> out;
  why_not = comm.first_problem([&] { out.reset(new NcclComm(nccl::nccl_api(), gpu, patience)); });
  if (!why_not.empty()) return nullptr;
  why_not = refusal(of_each(comm, "NCCL " + out->version()), of_each(comm, machine_name() + gpu->facts().pci));
  if (!why_not.empty()) return nullptr;
  nccl::UniqueId id{};
  why_not = comm.first_problem([&] {
    if (comm.rank() == 0) out->expect("ncclGetUniqueId", out->api_.ncclGetUniqueId(&id));
  });
  if (!why_not.empty()) return nullptr;
  std::memcpy(id.bytes, comm.share(std::string(id.bytes, sizeof id.bytes)).data(), sizeof id.bytes);
  why_not = comm.first_problem([&] { out->begin(comm.size(), comm.rank(), id); });
  if (why_not.empty()) return out;
  out->give_up();
  return nullptr;
}

void NcclComm::mean(std::span<float> values) {
  if (!comm_) fail_device("NCCL was given up after a failure");
  try {
    gpu_->api();
    expect("ncclAllReduce", api_.ncclAllReduce(values.data(), values.data(), values.size(), nccl::kFloat32,
                                               nccl::kAverage, comm_, stream_.handle()));
    wait("ncclAllReduce", [this] { return stream_.is_done(); });
  } catch (...) {
    give_up();
    throw;
  }
}

}  // namespace sparkpilot
