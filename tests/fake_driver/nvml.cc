// A libnvidia-ml that answers what the test asks for: the loader and the calls are the real ones, the GPU is not.
// FAKE_DRIVER in the environment chooses: "", not_supported, nonsense, lost, failed, hang_init, hang_device,
// slow_device. FAKE_DRIVER_CALLS: a file to which the name of each function that is called is added, a line each.
// FAKE_OLD: only the entry points of an old driver.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {
bool mode(const char* name) {
  const char* set = std::getenv("FAKE_DRIVER");
  return set && std::strcmp(set, name) == 0;
}
void hang() {
  for (;;) sleep(1000);
}
void called(const char* name = __builtin_FUNCTION()) {
  const char* file = std::getenv("FAKE_DRIVER_CALLS");
  FILE* const calls = file ? std::fopen(file, "a") : nullptr;
  if (!calls) return;
  std::fprintf(calls, "%s\n", name);
  std::fclose(calls);
}
int text(const char* value, char* out, unsigned size, const char* name = __builtin_FUNCTION()) {
  called(name);
  if (std::strlen(value) >= size) return 7;
  std::strcpy(out, value);
  return 0;
}
template <typename T>
int number(unsigned long long value, T* out, const char* name = __builtin_FUNCTION()) {
  called(name);
  if (mode("not_supported")) return 3;
  *out = static_cast<T>(mode("nonsense") ? ~0ULL : value);
  return 0;
}
int processes(unsigned* count, char* out, unsigned long size, unsigned there, const char* name = __builtin_FUNCTION()) {
  called(name);
  if (mode("not_supported")) return 3;
  if (*count < there) {
    *count = there;
    return 7;
  }
  for (unsigned i = 0; i < there; ++i) {
    const unsigned pid = 1000 + i;
    const unsigned long long bytes = i == 0 ? ~0ULL : i << 20;
    std::memcpy(out + i * size, &pid, sizeof pid);
    std::memcpy(out + i * size + 8, &bytes, sizeof bytes);
  }
  *count = there;
  return 0;
}
}  // namespace

extern "C" {
int nvmlSystemGetDriverVersion(char* out, unsigned size) { return text("580.95.05", out, size); }
int nvmlDeviceGetName(void*, char* out, unsigned size) {
  if (mode("hang_device")) hang();
  if (mode("slow_device")) usleep(500'000);
  return text(mode("nonsense") ? "\xff\xfe\x01GPU" : "NVIDIA GB10", out, size);
}
int nvmlDeviceGetTemperature(void*, int, unsigned* out) { return number(41, out); }
int nvmlDeviceGetPowerUsage(void*, unsigned* out) { return number(13500, out); }
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* out) { return number(kind == 1 ? 2411 : 8533, out); }
struct Rates {
  unsigned gpu, memory;
};
int nvmlDeviceGetUtilizationRates(void*, Rates* out) {
  out->memory = mode("nonsense") ? ~0U : 7;
  return number(3, &out->gpu);
}
int nvmlSystemGetNVMLVersion(char* out, unsigned size) { return text("13.580.95.05", out, size); }
int nvmlDeviceGetMaxClockInfo(void*, int kind, unsigned* out) { return number(kind == 1 ? 3003 : 8533, out); }
int nvmlDeviceGetNumGpuCores(void*, unsigned* out) { return number(6144, out); }
int nvmlDeviceGetTemperatureThreshold(void*, int kind, unsigned* out) { return number(kind == 0 ? 95 : 90, out); }
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* out) { return number(5, out); }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* out) { return number(16, out); }
#ifdef FAKE_OLD
int nvmlInit() { return 0; }
int nvmlDeviceGetCount(unsigned* out) { return *out = 1, 0; }
int nvmlDeviceGetHandleByIndex(unsigned, void** out) { return *out = out, 0; }
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* out) {
  return out[0] = 8ULL << 30, out[1] = 6ULL << 30, out[2] = 2ULL << 30, 0;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* out) { return number(4, out); }
int nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, char* out) { return processes(count, out, 16, 2); }
int nvmlSystemGetCudaDriverVersion(int* out) { return *out = 12020, 0; }
#else
int nvmlInit_v2() {
  if (mode("hang_init")) hang();
  return mode("failed") ? 18 : 0;
}
int nvmlDeviceGetCount_v2(unsigned* out) { return called(), *out = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** out) {
  called();
  if (mode("lost") && i == 0) return 15;
  return *out = out, 0;
}
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(void*, MemoryV2* out) {
  if (out->version != (sizeof(MemoryV2) | 2U << 24)) return 2;
  out->free = 90ULL << 30, out->used = 1ULL << 30;
  return number(128ULL << 30, &out->total);
}
int nvmlDeviceGetCurrentClocksEventReasons(void*, unsigned long long* out) { return number(1, out); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long*) { return 999; }  // the newer one is asked
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, char* out) {
  return processes(count, out, 24, 200);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, char*) { return *count = 0, 0; }
int nvmlSystemGetCudaDriverVersion_v2(int* out) { return called(), *out = 13000, 0; }
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void*, Pci* out) {
  called();
  *out = {"", 15, 1, 0, 0x2e1210deU, 0, ""};
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) { return called(), *major = 12, *minor = 1, 0; }
#endif
}
