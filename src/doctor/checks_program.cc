// This program itself, if the machine examined is the one it runs on.
#include "doctor/check.h"
#include "route/video/reader.h"
#include "sparkpilot/error.h"

namespace sparkpilot::doctor {
namespace {

void decoders(const Patient& patient, Says& says) {
  if (!patient.options.here) return says.skip("the machine is not this one");
  std::string missing;
  try {
    for (const char* codec : {"hevc", "h264"}) {
      if (!drive::can_decode(codec)) missing += (missing.empty() ? "" : ", ") + std::string(codec);
    }
  } catch (const Error& error) {
    return says.bad("{}", error.what());
  }
  if (!missing.empty()) return says.bad("FFmpeg's libraries have no decoder for {}", missing);
  says.good("FFmpeg decodes hevc and h264");
}

void kernels(const Patient& patient, Says& says) {
  if (!patient.options.here) return says.skip("the machine is not this one");
  if (!highest_capability(patient)) return says.skip("no NVIDIA GPU of known capability");
  if (const ComputeCapability here = *highest_capability(patient); here < ComputeCapability{8, 0}) {
    says.bad("sparkpilot needs compute capability 8.0, this GPU has {}.{}", here.major, here.minor);
    return says.fix("nothing helps but a newer GPU: models run on the processor");
  }
  const std::optional<stack::Verdict> code = gpu_code(patient, "/proc/self/exe");
  if (!code) return says.skip("the program cannot read itself");
  switch (code->standing) {
    case stack::Standing::native:
    case stack::Standing::family: return says.good("sparkpilot's GPU code runs on this GPU as it is");
    case stack::Standing::jit: return says.bad("sparkpilot holds PTX alone for this GPU");
    case stack::Standing::no_gpu_code: return says.bad("sparkpilot holds no GPU code");
    default: return says.bad("sparkpilot's GPU code does not run on this GPU ({})", stack::name_of(code->standing));
  }
}

constexpr Check kProgramChecks[] = {
    {{"program.kernels", "sparkpilot has kernels for the GPU", Impact::slow,
      "Without them models run on the processor; with PTX alone they are compiled at every first start.",
      "build it on this machine with a CUDA toolkit: make build"},
     kernels},
    {{"program.decoders", "FFmpeg decodes openpilot's videos", Impact::fatal, "No route's camera video can be read.",
      "sudo apt install --reinstall libavformat59 or libavformat60 (whichever this system has)"},
     decoders},
};

}  // namespace

std::span<const Check> program_checks() { return kProgramChecks; }

}  // namespace sparkpilot::doctor
