#include "doctor/load.h"

#include <chrono>
#include <future>

namespace sparkpilot {

Load sample_under_load(Source& source, double seconds, VerifyOptions options) {
  constexpr auto kStep = std::chrono::milliseconds(250);
  options.load_seconds = seconds;
  Load out;
  std::future<Verifications> work = std::async(std::launch::async, [&options] { return verify_gpus(options); });
  if (work.wait_for(std::chrono::seconds(1)) == std::future_status::timeout) {
    do {
      out.samples.push_back(source.nvml());
    } while (work.wait_for(kStep) == std::future_status::timeout);
  }
  out.verified = work.get();
  return out;
}

}  // namespace sparkpilot
