// The answers of the NVIDIA driver's libraries, as plain values that can be recorded, sent and replayed.
//
// NVML and libcuda are loaded at first use and never linked, so the program also starts on machines without them. They
// may hang (a lost GPU, an incomplete driver update), so every call has a time limit; a library that exceeded it is not
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

// The answer to one question: a value, or the library's error code. Values are as the library gave them, plausible or
// not.
struct Answer {
  std::variant<std::monostate, int64_t, std::string> value = {};
  int error = 0;  // nvmlReturn_t or CUresult; 0 with a value
  bool operator==(const Answer&) const = default;
};

// By question, such as "temperature_c"; driver_questions() lists them. Questions that the library has no function for
// are absent.
using Answers = std::map<std::string, Answer, std::less<>>;

struct GpuProcess {
  int64_t pid = 0;
  std::optional<int64_t> bytes = {};  // of GPU memory; the driver does not always say
  bool compute = true;                // else graphics
  bool operator==(const GpuProcess&) const = default;
};

struct GpuDriverAnswers {
  enum class State {
    absent,     // no such library
    unusable,   // it cannot be loaded, or lacks functions of every version: `reason`
    failed,     // its initialisation failed: `error`
    timed_out,  // it did not answer in time: `reason` names the call
    answered,
  };
  State state = State::absent;
  std::string library = {};  // the file it was loaded from, if known
  std::string reason = {};
  int error = 0;
  Answers system = {};                                  // of the driver as a whole
  std::vector<Answers> devices = {};                    // in the library's order
  std::vector<std::vector<GpuProcess>> processes = {};  // by device; NVML only
  bool operator==(const GpuDriverAnswers&) const = default;
};

// Where the loader finds the driver's libraries, in this order; the second is that of WSL2.
std::vector<std::string> nvml_libraries();
std::vector<std::string> cuda_libraries();

// Asks every question for every device. `wait_seconds` applies to each call into the library. Several threads may ask.
// `libraries` are names or paths for the loader, which takes the first that it finds.
//
// Repeated callers of NVML pass their previous answers as `before`: values that are constant while a driver is loaded
// (a GPU's name, address, highest clocks ...) are taken from them, and asked again only if GPUs were added, removed or
// lost.
GpuDriverAnswers ask_nvml(double wait_seconds, const GpuDriverAnswers& before = {},
                          const std::vector<std::string>& libraries = nvml_libraries());
GpuDriverAnswers ask_cuda(double wait_seconds, const std::vector<std::string>& libraries = cuda_libraries());

// Every question, such as "power_mw": the name says what it means and ends in the unit.
std::vector<std::string_view> nvml_questions();
std::vector<std::string_view> cuda_questions();

// The value if it is a number or a text, else empty.
std::optional<int64_t> integer(const Answers& answers, std::string_view question);
std::optional<std::string> text(const Answers& answers, std::string_view question);
// The library's error for this question; 0 if it answered or was not asked.
int error_of(const Answers& answers, std::string_view question);

// The names of errors that users meet, such as "NVML_ERROR_NOT_SUPPORTED"; the number for other errors.
std::string nvml_error_name(int error);
std::string cuda_error_name(int error);

}  // namespace sparkpilot
