// What the NVIDIA driver's libraries answer, as plain values that can be recorded, sent and replayed.
//
// NVML and libcuda are loaded when they are first asked and never linked: a machine without them starts like any other.
// They may hang (a lost GPU, a driver half updated), so every call has a time limit; a library that missed it is not
// asked again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sparkpilot {

// One question's answer: a value, or the library's error code. Values are as the library gave them, sane or not.
struct Answer {
  std::variant<std::monostate, int64_t, std::string> value = {};
  int error = 0;  // nvmlReturn_t or CUresult; 0 with a value
  bool operator==(const Answer&) const = default;
};

// By question, such as "temperature_c"; driver_questions() lists them. What the library has no function for is absent.
using Answers = std::map<std::string, Answer, std::less<>>;

struct GpuProcess {
  int64_t pid = 0;
  std::optional<int64_t> bytes = {};  // of GPU memory; the driver does not always say
  bool compute = true;                // else graphics
  bool operator==(const GpuProcess&) const = default;
};

struct DriverAnswers {
  enum class State {
    absent,     // no such library
    unusable,   // it cannot be loaded, or lacks what every version has: `reason`
    failed,     // its initialisation failed: `error`
    timed_out,  // it did not answer in time: `reason` names the call
    answered,
  };
  State state = State::absent;
  std::string library = {};  // the file it was loaded from, where known
  std::string reason = {};
  int error = 0;
  Answers system = {};                                  // of the driver as a whole
  std::vector<Answers> devices = {};                    // in the library's order
  std::vector<std::vector<GpuProcess>> processes = {};  // by device; NVML only
  bool operator==(const DriverAnswers&) const = default;
};

// Asks every question, of every device. `wait_seconds` is for each call into the library alone. Several threads may
// ask. `libraries` are names or paths for the loader, the first that it finds is taken.
//
// Who asks NVML again and again gives its answers of the time `before`: what lasts while a driver is loaded (a GPU's
// name, address, highest clocks ...) is taken from them, and asked anew only where GPUs came, went or were lost.
DriverAnswers ask_nvml(double wait_seconds, const DriverAnswers& before = {},
                       const std::vector<std::string>& libraries = {"libnvidia-ml.so.1",
                                                                    "/usr/lib/wsl/lib/libnvidia-ml.so.1"});
DriverAnswers ask_cuda(double wait_seconds,
                       const std::vector<std::string>& libraries = {"libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"});

// Every question that is asked, such as "power_mw"; what it means is in its name, its unit at the end.
std::vector<std::string_view> nvml_questions();
std::vector<std::string_view> cuda_questions();

// The value as a number or text where it is one, else empty.
std::optional<int64_t> integer(const Answers& answers, std::string_view question);
std::optional<std::string> text(const Answers& answers, std::string_view question);
// The library's error for this question; 0 where it answered or was not asked.
int error_of(const Answers& answers, std::string_view question);

// The names of errors that users meet, such as "NVML_ERROR_NOT_SUPPORTED"; the number where it is another.
std::string nvml_error_name(int error);
std::string cuda_error_name(int error);

}  // namespace sparkpilot
