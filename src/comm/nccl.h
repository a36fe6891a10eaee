// Sums over the processes of a run in the memory of their GPUs, by NVIDIA's NCCL. On a GPU it has run with one process
// only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "comm/comm.h"
#include "comm/nccl_api.h"
#include "tensor/gpu.h"

namespace sparkpilot {

// Used by one thread.
class NcclComm {
 public:
  // Joins the processes of `comm`, each with its own GPU; all of them call it. Null in all of them if one cannot,
  // with the reason in `why_not` ("process 1: NCCL cannot be loaded: ..."): they can still use `comm`. `patience`: the
  // seconds after which joining or an exchange that does not end is given up; as many as in PyTorch, as another process
  // may be far behind.
  static std::unique_ptr<NcclComm> join(Comm& comm, std::shared_ptr<GpuDevice> gpu, std::string& why_not,
                                        double patience = 600);
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  // The mean over the processes' values, in place, in memory of the GPU; all have the same number of them. Returns when
  // it is there. The values must be there before: what was enqueued on other streams is not waited for. Fails (device)
  // if NCCL does, if another process's NCCL does, and after `patience`; then it cannot be used any more.
  void mean(std::span<float> values);
  // "2.28.9"
  std::string version() const { return nccl::version_text(api_.version); }

 private:
  NcclComm(const nccl::NcclApi& api, std::shared_ptr<GpuDevice> gpu, double patience);
  void begin(int ranks, int rank, const nccl::UniqueId& id);
  void expect(const char* call, int result) const;
  void wait(const char* call, const std::function<bool()>& done);
  void give_up();

  const nccl::NcclApi& api_;
  std::shared_ptr<GpuDevice> gpu_;
  GpuStream stream_;
  const double patience_;
  nccl::CommHandle comm_ = nullptr;
};

}  // namespace sparkpilot
