#include "results.h"

#include "base/error.h"
#include "base/file.h"
#include "bench/facts.h"
#include "hw/cpu.h"
#include "hw/probe.h"
#include "shape.h"

namespace sparkpilot::gpu_check {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBytes = 32 << 20;

// What is wrong with a document that was read; empty if it is whole. Fails (user) if another program wrote it.
std::string fault_in(const fs::path& file, const Json& document) {
  if (document.is_discarded()) return fmt::format("{}: is no whole JSON document", file.string());
  if (!is_ours(document)) fail("{}: was not written by gpu_check: its \"format\" says otherwise", file.string());
  const std::string fault = fault_of(document);
  return fault.empty() ? "" : fmt::format("{}: {}", file.string(), fault);
}

Json parsed(const fs::path& file) { return Json::parse(read_file(file, kMostBytes), nullptr, false); }

// The first free name beside it.
fs::path set_aside(const fs::path& file) {
  fs::path aside;
  int number = 0;
  do {
    aside = file.parent_path() / fmt::format("gpu_check.damaged-{}.json", ++number);
  } while (fs::exists(fs::symlink_status(aside)));
  std::error_code error;
  fs::rename(file, aside, error);
  if (error) fail("{}: cannot be renamed to {}: {}", file.string(), aside.string(), error.message());
  return aside;
}

Json gpu_facts(const GpuFacts& gpu) {
  return {{"name", gpu.name},
          {"capability", fmt::format("{}.{}", gpu.capability / 10, gpu.capability % 10)},
          {"cuda_of_driver", fmt::format("{}.{}", gpu.driver / 1000, gpu.driver % 1000 / 10)},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.total_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"unified_memory", gpu.unified}};
}

// A file without parts, for this GPU and program.
Json new_document(int ordinal, const std::string& commit) {
  // A driver that hangs must not hang this.
  const std::unique_ptr<Source> system = system_source({.driver_wait_seconds = 10});
  const Machine machine = probe(*system);
  if (!machine.driver.cuda_answers && !machine.driver.cuda_problem.empty())
    throw Error(ErrorKind::device, machine.driver.cuda_problem);
  const auto gpu = GpuDevice::open(ordinal);
  return {{"format", kFormat},
          {"format_version", kFormatVersion},
          {"commit", commit},
          {"emulated", is_emulated()},
          {"gpu", gpu_facts(gpu->facts())},
          {"machine", machine_facts(machine, cpu_features())},
          {"versions", version_facts()},
          {"parts", Json::object()}};
}

}  // namespace

Results::Results(const fs::path& folder, int ordinal, const std::string& commit,
                 const std::function<void(const std::string& line)>& say)
    : file_(folder / "gpu_check.json"), document_(new_document(ordinal, commit)) {
  if (!fs::exists(file_)) return;
  Json before = parsed(file_);
  const std::string fault = fault_in(file_, before);
  if (!fault.empty()) {
    say(fmt::format("{}; it is kept as {}, and a new one is begun", fault, set_aside(file_).string()));
    return;
  }
  const std::pair<const char*, const char*> same[] = {
      {"gpu", "GPU"}, {"commit", "commit"}, {"versions", "program"}, {"emulated", "driver"}};
  for (const auto& [key, what] : same) {
    if (before[key] != document_[key])
      fail("{}: is of another {}; choose another folder with --out", file_.string(), what);
  }
  document_["parts"] = std::move(before["parts"]);
}

Json Results::part(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const Json& parts = document_["parts"];
  const auto found = parts.find(name);
  return found != parts.end() ? *found : Json();
}

void Results::put(std::string_view name, Json part) {
  if (part.is_null()) document_["parts"].erase(std::string(name));
  else document_["parts"][std::string(name)] = std::move(part);
}

void Results::write() const {
  AtomicFile out(file_);
  out.write(document_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  out.commit();
}

void Results::set(std::string_view name, Json part, std::optional<Json> if_stopped) {
  const std::lock_guard lock(mutex_);
  put(name, std::move(part));
  stopped_part_ = name;
  if_stopped_ = std::move(if_stopped);
  write();
}

void Results::stop() {
  mutex_.lock();  // never unlocked
  if (!if_stopped_) return;
  put(stopped_part_, std::move(*if_stopped_));
  write();
}

Json read_results(const fs::path& file) {
  Json document = parsed(file);
  const std::string fault = fault_in(file, document);
  if (!fault.empty()) fail("{}", fault);
  return document;
}

}  // namespace sparkpilot::gpu_check
