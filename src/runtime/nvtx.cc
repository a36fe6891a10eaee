#include "runtime/nvtx.h"

#ifdef SPARKPILOT_NVTX
#include <nvtx3/nvToolsExt.h>

namespace sparkpilot {
namespace {

// Null without a profiler that knows domains.
nvtxDomainHandle_t domain() {
  static nvtxDomainRegistration* const handle = nvtxDomainCreateA("sparkpilot");
  return handle;
}

}  // namespace

bool nvtx_attached() { return domain() != nullptr; }

NvtxRange::NvtxRange(const std::string& name) : open_(!name.empty() && nvtx_attached()) {
  if (!open_) return;
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name.c_str();
  nvtxDomainRangePushEx(domain(), &range);
}

NvtxRange::~NvtxRange() {
  if (open_) nvtxDomainRangePop(domain());
}

}  // namespace sparkpilot

#else

namespace sparkpilot {

bool nvtx_attached() { return false; }
NvtxRange::NvtxRange(const std::string&) : open_(false) {}
NvtxRange::~NvtxRange() = default;

}  // namespace sparkpilot

#endif
