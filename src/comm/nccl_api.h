// The functions of NVIDIA's NCCL that sparkpilot uses. It is loaded at run time and never linked, and its header is not
// needed; where that is installed, a test holds these declarations to it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hw/cuda_api.h"

namespace sparkpilot::nccl {

using CommHandle = struct Communicator_*;

struct UniqueId {
  char bytes[128];
};

// ncclResult_t, as far as we act on single ones.
enum Result : int { kSuccess = 0, kInProgress = 7 };
constexpr int kFloat32 = 7;  // ncclDataType_t
constexpr int kAverage = 4;  // ncclRedOp_t

// ncclConfig_t of version 2.14, which later versions take by its size and version.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;  // calls return while their work goes on; ncclCommGetAsyncError says when it has ended
};
constexpr int kLeastVersion = 21400;

#define SPARKPILOT_NCCL_FUNCTIONS(F)                                                                                 \
  F(int, ncclGetVersion, (int* version))                                                                             \
  F(int, ncclGetUniqueId, (UniqueId * id))                                                                           \
  F(int, ncclCommInitRankConfig, (CommHandle * comm, int ranks, UniqueId id, int rank, Config* config))              \
  F(int, ncclCommGetAsyncError, (CommHandle comm, int* state))                                                       \
  F(int, ncclAllReduce,                                                                                              \
    (const void* from, void* to, size_t count, int type, int operation, CommHandle comm, cuda::StreamHandle stream)) \
  F(int, ncclCommAbort, (CommHandle comm))                                                                           \
  F(int, ncclCommDestroy, (CommHandle comm))                                                                         \
  F(const char*, ncclGetErrorString, (int error))                                                                    \
  F(const char*, ncclGetLastError, (CommHandle comm))

struct NcclApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name and a list of parameters
#define SPARKPILOT_NCCL_MEMBER(type, name, parameters) type(*name) parameters = nullptr;
  SPARKPILOT_NCCL_FUNCTIONS(SPARKPILOT_NCCL_MEMBER)
#undef SPARKPILOT_NCCL_MEMBER
  int version = 0;  // 22809: 2.28.9
};

// The library of this process, loaded at the first call as the loader finds it (libnccl.so.2: LD_LIBRARY_PATH and the
// system's folders). Fails (device) if it is absent or older than kLeastVersion. Several threads may call.
const NcclApi& nccl_api();
// The same, of a library by another name or path, loaded at each call.
NcclApi load_nccl(const std::string& library);

// "2.28.9"
std::string version_text(int version);

}  // namespace sparkpilot::nccl
