// A libcuda with one GB10 that computes on the processor what verify.cc asks of it. FAKE_DRIVER: failed (a driver and a
// library of different versions), hang_init, hang_run, no_device, no_memory, wrong (one bit of one value).
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace {
bool mode(const char* name) {
  const char* set = std::getenv("FAKE_DRIVER");
  return set && std::strcmp(set, name) == 0;
}
int held = 0;  // allocations, contexts and modules that were not given back
}  // namespace

extern "C" {
int fake_held() { return held; }
int cuInit(unsigned) {
  if (mode("hang_init")) {
    for (;;) sleep(1000);
  }
  return mode("failed") ? 803 : 0;
}
int cuDevicePrimaryCtxRetain(void** out, int) { return ++held, *out = &held, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return --held, 0; }
int cuCtxSetCurrent(void* context) { return context == &held ? 0 : 201; }
int cuModuleLoadData(void** out, const void* image) {
  if (!std::strstr(static_cast<const char*>(image), ".entry iterate(")) return 218;
  return ++held, *out = &held, 0;
}
int cuModuleUnload(void*) { return --held, 0; }
int cuModuleGetFunction(void** out, void*, const char* name) {
  return *out = &held, std::strcmp(name, "iterate") == 0 ? 0 : 500;
}
int cuMemAlloc_v2(unsigned long long* out, std::size_t bytes) {
  if (mode("no_memory")) return 2;
  return ++held, *out = reinterpret_cast<unsigned long long>(std::malloc(bytes)), 0;
}
int cuMemFree_v2(unsigned long long pointer) { return --held, std::free(reinterpret_cast<void*>(pointer)), 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void* from, std::size_t bytes) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), 0;
}
int cuMemcpyDtoH_v2(void* to, unsigned long long from, std::size_t bytes) {
  return std::memcpy(to, reinterpret_cast<void*>(from), bytes), 0;
}
int cuCtxSynchronize() { return 0; }
int cuLaunchKernel(void*, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned, void*,
                   void** parameters, void**) {
  if (mode("hang_run")) {
    for (;;) sleep(1000);
  }
  float* const out = *static_cast<float**>(parameters[0]);
  const float* const in = *static_cast<float**>(parameters[1]);
  const unsigned count = *static_cast<unsigned*>(parameters[2]), rounds = *static_cast<unsigned*>(parameters[3]);
  if (blocks * threads < count) return 1;
  for (unsigned i = 0; i < count; ++i) {
    out[i] = in[i];
    for (unsigned r = 0; r < (rounds < 100 ? rounds : 1); ++r) out[i] = std::fma(out[i], -0.75F, 1.0F);
  }
  if (mode("wrong")) out[count - 1] = std::nextafter(out[count - 1], 9.0F);
  return 0;
}
int cuDriverGetVersion(int* out) { return *out = 13000, 0; }
int cuDeviceGetCount(int* out) { return *out = mode("no_device") ? 0 : 1, 0; }
int cuDeviceGet(int* out, int index) { return *out = index, 0; }
int cuDeviceGetName(char* out, int, int) { return std::strcpy(out, "NVIDIA GB10"), 0; }
int cuDeviceTotalMem_v2(std::size_t* out, int) { return *out = 119ULL << 30, 0; }
int cuDeviceGetAttribute(int* out, int attribute, int) {
  switch (attribute) {
    case 75: return *out = 12, 0;
    case 76: return *out = 1, 0;
    case 16: return *out = 48, 0;
    case 18: return *out = 1, 0;
    case 88: return *out = 1, 0;
    default: return 1;
  }
}
}
