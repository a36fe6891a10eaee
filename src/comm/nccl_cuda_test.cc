// The table of NCCL's functions against its header: parameters, handles, constants, and the beginning of its config.
#include <gtest/gtest.h>

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "comm/nccl_api.h"
#include "hw/test_same_types.h"

namespace sparkpilot {

SPARKPILOT_SAME(ncclComm_t, nccl::CommHandle)
SPARKPILOT_SAME(cudaStream_t, cuda::StreamHandle)
SPARKPILOT_SAME(ncclUniqueId, nccl::UniqueId)
SPARKPILOT_SAME(ncclConfig_t, nccl::Config)
SPARKPILOT_SAME(ncclResult_t, int)
SPARKPILOT_SAME(ncclDataType_t, int)
SPARKPILOT_SAME(ncclRedOp_t, int)

namespace nccl {
namespace {

TEST(NcclApi, IsThatOfItsHeader) {
#define SPARKPILOT_CHECK(type_, name, parameters) \
  static_assert(std::is_same_v<OurPointer<decltype(::name)>::type, decltype(NcclApi::name)>, #name);
  SPARKPILOT_NCCL_FUNCTIONS(SPARKPILOT_CHECK)
  static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId) && alignof(UniqueId) == alignof(ncclUniqueId));
  static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                sizeof(ncclRedOp_t) == sizeof(int));
  static_assert(int{kSuccess} == ncclSuccess && int{kInProgress} == ncclInProgress);
  static_assert(kFloat32 == ncclFloat32 && kAverage == ncclAvg);
  static_assert(offsetof(Config, size) == offsetof(ncclConfig_t, size) &&
                offsetof(Config, magic) == offsetof(ncclConfig_t, magic) &&
                offsetof(Config, version) == offsetof(ncclConfig_t, version) &&
                offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(Config{}.magic, theirs.magic);
  static_assert(kLeastVersion == NCCL_VERSION(2, 14, 0));
}

}  // namespace
}  // namespace nccl
}  // namespace sparkpilot
#endif
