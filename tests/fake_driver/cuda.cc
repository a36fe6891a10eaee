// A libcuda with one GB10; FAKE_DRIVER: failed (a driver and a library of different versions), hang_init.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" {
int cuInit(unsigned) {
  const char* mode = std::getenv("FAKE_DRIVER");
  if (mode && std::strcmp(mode, "hang_init") == 0) {
    for (;;) sleep(1000);
  }
  return mode && std::strcmp(mode, "failed") == 0 ? 803 : 0;
}
int cuDriverGetVersion(int* out) { return *out = 13000, 0; }
int cuDeviceGetCount(int* out) { return *out = 1, 0; }
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
