// A machine in a file: the questions to a Source and its answers, as JSON (docs/machine_record.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "hw/redact.h"
#include "hw/source.h"

namespace sparkpilot {

inline constexpr int kRecordVersion = 1;

// Answers from a recording; what it does not hold is absent. `name` is for messages. Fails (user) if the text is not a
// recording, is damaged or has another version.
std::unique_ptr<Source> recorded_source(std::string_view json, const std::string& name);

// A Redactor with the names of the source's machine and of its users.
Redactor redactor_of(Source& source);

// Passes questions on and remembers the answers. The drivers are asked once: a recording is of one point in time.
class Recorder : public Source {
 public:
  explicit Recorder(Source& inner);
  ~Recorder() override;

  // Everything so far, with the machine's secrets removed (hw/redact.h). Ends in a newline.
  std::string json() const;

  std::optional<std::string> read(const std::string& path, size_t limit) override;
  std::vector<std::string> list(const std::string& folder) override;
  std::optional<std::string> link(const std::string& path) override;
  Access access(const std::string& path) override;
  std::optional<Space> space(const std::string& path) override;
  std::optional<std::string> variable(const std::string& name) override;
  std::string architecture() override;
  GpuDriverAnswers nvml() override;
  GpuDriverAnswers cuda() override;
  std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>& words) override;

 private:
  struct Record;
  Source& inner_;
  std::unique_ptr<Record> record_;
};

}  // namespace sparkpilot
