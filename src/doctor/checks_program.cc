// This program itself, where the machine is the one it runs on.
#include "doctor/check.h"
#include "drive/video/reader.h"

namespace sparkpilot::doctor {
namespace {

void decoders(const Patient& patient, Says& says) {
  if (!patient.options.here) return says.skip("the machine is not this one");
  std::string missing;
  for (const char* codec : {"hevc", "h264"}) {
    if (!drive::can_decode(codec)) missing += (missing.empty() ? "" : ", ") + std::string(codec);
  }
  if (!missing.empty()) return says.bad("FFmpeg's libraries have no decoder for {}", missing);
  says.good("FFmpeg decodes hevc and h264");
}

constexpr Check kChecks[] = {
    {{"program.decoders", "FFmpeg decodes openpilot's videos", Impact::fatal, "No route's cameras can be read.",
      "sudo apt install --reinstall libavcodec59 libavcodec60 (whichever this system has)"},
     decoders},
};

}  // namespace

std::span<const Check> program_checks() { return kChecks; }

}  // namespace sparkpilot::doctor
