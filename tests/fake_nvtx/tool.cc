// What a profiler loads through NVTX_INJECTION64_PATH, as a test wants it: writes each range to the file of
// FAKE_NVTX_FILE, "domain NAME", "THREAD push TEXT" and "THREAD pop" a line. FAKE_NVTX_REFUSES: cannot start.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

FILE* file() {
  static FILE* const out = std::fopen(std::getenv("FAKE_NVTX_FILE"), "ae");
  return out;
}

long thread() { return syscall(SYS_gettid); }

nvtxDomainHandle_t create(const char* name) {
  std::fprintf(file(), "domain %s\n", name);
  std::fflush(file());
  return reinterpret_cast<nvtxDomainHandle_t>(file());
}
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  if (domain != reinterpret_cast<nvtxDomainHandle_t>(file())) std::abort();
  if (range->version != NVTX_VERSION || range->messageType != NVTX_MESSAGE_TYPE_ASCII) std::abort();
  return std::fprintf(file(), "%ld push %s\n", thread(), range->message.ascii);
}
int pop(nvtxDomainHandle_t) {
  std::fprintf(file(), "%ld pop\n", thread());
  return std::fflush(file());
}

template <typename Function>
NvtxFunctionPointer pointer(Function* function) {
  return reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  if (std::getenv("FAKE_NVTX_REFUSES") || !file()) return 0;
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = pointer(create);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = pointer(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = pointer(pop);
  return 1;
}
