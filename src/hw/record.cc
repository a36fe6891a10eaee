#include "hw/record.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "hw/parse_text.h"

namespace sparkpilot {
namespace {

using nlohmann::json;
using Json = nlohmann::ordered_json;  // what is read

constexpr std::array<std::pair<GpuDriverAnswers::State, const char*>, 5> kStates = {{
    {GpuDriverAnswers::State::absent, "absent"},
    {GpuDriverAnswers::State::unusable, "unusable"},
    {GpuDriverAnswers::State::failed, "failed"},
    {GpuDriverAnswers::State::timed_out, "timed_out"},
    {GpuDriverAnswers::State::answered, "answered"},
}};
constexpr std::array<std::pair<Access, const char*>, 4> kAccess = {{
    {Access::absent, "absent"},
    {Access::denied, "denied"},
    {Access::read_only, "read_only"},
    {Access::read_write, "read_write"},
}};

template <typename T, size_t N>
const char* name_of(const std::array<std::pair<T, const char*>, N>& names, T value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return names[0].second;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// The contents of a recording, for writing and for replaying.
struct Contents {
  std::string architecture;
  std::map<std::string, std::string> files, links, variables;
  std::map<std::string, std::set<std::string>> folders;
  std::map<std::string, Access> access;
  std::map<std::string, Space> space;
  std::optional<std::vector<std::string>> kernel_log;
  GpuDriverAnswers nvml, cuda;
};

// Reads JSON: every function takes the path of what it reads, so that errors name it.
class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}

  Contents read(std::string_view text) {
    const Json document = parse_json_or_discard(text);
    if (document.is_discarded() || !document.is_object() || !document.contains("sparkpilot_record")) {
      fail("{}: expected a machine that `sparkpilot doctor --record` wrote, this is {}", name_,
           document.is_discarded() ? "not even JSON" : "other JSON");
    }
    const Json& version = document["sparkpilot_record"];
    if (version != kRecordVersion) {
      fail("{}: expected a recorded machine of version {}, this one is of version {}", name_, kRecordVersion,
           version.is_number_integer() ? json_text(version) : "?");
    }
    Contents out;
    if (document.contains("architecture")) out.architecture = string(document["architecture"], "architecture");
    each(document, "files", [&](const std::string& path, const Json& value) { out.files[path] = file(value, path); });
    each(document, "links", [&](const std::string& path, const Json& value) { out.links[path] = string(value, path); });
    each(document, "variables",
         [&](const std::string& name, const Json& value) { out.variables[name] = string(value, name); });
    each(document, "folders", [&](const std::string& path, const Json& value) {
      std::set<std::string>& entries = out.folders[path];
      for (const std::string& name : strings(value, path)) entries.insert(name);
    });
    each(document, "access",
         [&](const std::string& path, const Json& value) { out.access[path] = one_of(kAccess, value, path); });
    each(document, "space", [&](const std::string& path, const Json& value) {
      if (!value.is_object()) wrong(value, path, "an object with total_bytes and free_bytes");
      out.space[path] = {number(value.value("total_bytes", Json()), path),
                         number(value.value("free_bytes", Json()), path)};
    });
    if (document.contains("kernel_log")) out.kernel_log = strings(document["kernel_log"], "kernel_log");
    if (document.contains("nvml")) out.nvml = driver(document["nvml"], "nvml");
    if (document.contains("cuda")) out.cuda = driver(document["cuda"], "cuda");
    return out;
  }

 private:
  [[noreturn]] void wrong(const Json& value, const std::string& where, const char* expected) const {
    fail("{}: \"{}\" is {}, expected {}", name_, where, value.is_null() ? "missing" : value.type_name(), expected);
  }
  std::string string(const Json& value, const std::string& where) const {
    if (!value.is_string()) wrong(value, where, "a text");
    return value.get<std::string>();
  }
  int64_t number(const Json& value, const std::string& where) const {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)) {
      wrong(value, where, "an integer of 64 bits");
    }
    return value.get<int64_t>();
  }
  int code(const Json& value, const std::string& where) const {
    const int64_t wide = number(value, where);
    if (wide != static_cast<int>(wide)) wrong(value, where, "an error code");
    return static_cast<int>(wide);
  }
  std::vector<std::string> strings(const Json& value, const std::string& where) const {
    if (!value.is_array()) wrong(value, where, "a list of texts");
    std::vector<std::string> out;
    for (const Json& item : value) out.push_back(string(item, where));
    return out;
  }
  std::string file(const Json& value, const std::string& path) const {
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_array()) wrong(value, path, "a text or a list of lines");
    std::string text;
    for (const std::string& line : strings(value, path)) text += line + "\n";
    return text;
  }
  template <typename T, size_t N>
  T one_of(const std::array<std::pair<T, const char*>, N>& names, const Json& value, const std::string& where) const {
    const std::string text = string(value, where);
    std::string expected;
    for (const auto& [known, name] : names) {
      if (text == name) return known;
      expected += (expected.empty() ? "" : ", ") + std::string(name);
    }
    fail(R"({}: "{}" is "{}", expected one of {})", name_, where, text, expected);
  }
  template <typename F>
  void each(const Json& parent, const char* key, F&& f) const {
    if (!parent.contains(key)) return;
    const Json& object = parent[key];
    if (!object.is_object()) wrong(object, key, "an object");
    for (const auto& [name, value] : object.items()) f(name, value);
  }

  Answer answer(const Json& value, const std::string& where) const {
    if (value.is_string()) return {value.get<std::string>(), 0};
    if (value.is_object() && value.size() == 1 && value.contains("error")) return {{}, code(value["error"], where)};
    if (!value.is_number_integer()) wrong(value, where, R"(a number, a text or {"error": code})");
    return {number(value, where), 0};
  }
  Answers answers(const Json& value, const std::string& where) const {
    if (!value.is_object()) wrong(value, where, "an object");
    Answers out;
    for (const auto& [name, item] : value.items()) out[name] = answer(item, fmt::format("{}.{}", where, name));
    return out;
  }
  GpuProcess process(const Json& value, const std::string& where) const {
    if (!value.is_object()) wrong(value, where, "an object");
    GpuProcess out;
    out.pid = number(value.value("pid", Json()), where + ".pid");
    if (value.contains("bytes")) out.bytes = number(value["bytes"], where + ".bytes");
    if (value.contains("compute")) {
      if (!value["compute"].is_boolean()) wrong(value["compute"], where + ".compute", "true or false");
      out.compute = value["compute"].get<bool>();
    }
    return out;
  }
  GpuDriverAnswers driver(const Json& value, const std::string& where) const {
    if (!value.is_object()) wrong(value, where, "an object");
    GpuDriverAnswers out;
    out.state = one_of(kStates, value.value("state", Json()), where + ".state");
    if (value.contains("library")) out.library = string(value["library"], where + ".library");
    if (value.contains("reason")) out.reason = string(value["reason"], where + ".reason");
    if (value.contains("error")) out.error = code(value["error"], where + ".error");
    if (value.contains("system")) out.system = answers(value["system"], where + ".system");
    for (const Json& device : list(value, "devices", where)) out.devices.push_back(answers(device, where + ".devices"));
    for (const Json& of_device : list(value, "processes", where)) {
      if (!of_device.is_array()) wrong(of_device, where + ".processes", "a list for each device");
      std::vector<GpuProcess>& processes = out.processes.emplace_back();
      for (const Json& item : of_device) processes.push_back(process(item, where + ".processes"));
    }
    return out;
  }
  Json list(const Json& parent, const char* key, const std::string& where) const {
    if (!parent.contains(key)) return Json::array();
    if (!parent[key].is_array()) wrong(parent[key], where + "." + key, "a list");
    return parent[key];
  }

  std::string name_;
};

class Replay : public Source {
 public:
  explicit Replay(Contents contents) : contents_(std::move(contents)) {
    // A folder contains the files and links whose paths lie in it, in addition to what was listed.
    const auto add = [this](const std::string& path) {
      for (std::string part = path; part.size() > 1;) {
        const std::string folder = folder_of(part);
        if (!contents_.folders[folder].insert(part.substr(folder.size() == 1 ? 1 : folder.size() + 1)).second) break;
        part = folder;
      }
    };
    for (const auto& [path, text] : contents_.files) add(path);
    for (const auto& [path, target] : contents_.links) add(path);
    std::vector<std::string> folders;
    for (const auto& [path, names] : contents_.folders) folders.push_back(path);
    for (const std::string& path : folders) add(path);
  }

  std::optional<std::string> read(const std::string& path, size_t limit) override {
    const auto found = contents_.files.find(path);
    if (found == contents_.files.end()) return std::nullopt;
    return found->second.substr(0, limit);
  }
  std::vector<std::string> list(const std::string& folder) override {
    const size_t last = folder.find_last_not_of('/');
    const auto found = contents_.folders.find(last == std::string::npos ? "/" : folder.substr(0, last + 1));
    if (found == contents_.folders.end()) return {};
    std::vector<std::string> names(found->second.begin(), found->second.end());
    names.resize(std::min(names.size(), kListLimit));
    return names;
  }
  std::optional<std::string> link(const std::string& path) override { return find(contents_.links, path); }
  Access access(const std::string& path) override {
    if (const auto found = contents_.access.find(path); found != contents_.access.end()) return found->second;
    const bool there =
        contents_.files.contains(path) || contents_.folders.contains(path) || contents_.links.contains(path);
    return there ? Access::read_only : Access::absent;
  }
  std::optional<Space> space(const std::string& path) override { return find(contents_.space, path); }
  std::optional<std::string> variable(const std::string& name) override { return find(contents_.variables, name); }
  std::string architecture() override { return contents_.architecture; }
  GpuDriverAnswers nvml() override { return contents_.nvml; }
  GpuDriverAnswers cuda() override { return contents_.cuda; }
  std::optional<std::vector<std::string>> kernel_log(const std::vector<std::string>& words) override {
    if (!contents_.kernel_log) return std::nullopt;
    std::vector<std::string> lines;
    for (const std::string& line : *contents_.kernel_log) {
      const auto in_line = [&](const std::string& word) { return line.find(word) != std::string::npos; };
      if (std::any_of(words.begin(), words.end(), in_line)) lines.push_back(line);
    }
    return lines;
  }

 private:
  template <typename Map>
  static std::optional<typename Map::mapped_type> find(const Map& map, const std::string& key) {
    const auto found = map.find(key);
    if (found == map.end()) return std::nullopt;
    return found->second;
  }

  Contents contents_;
};

json to_json(const Answer& answer) {
  if (const auto* number = std::get_if<int64_t>(&answer.value)) return *number;
  if (const auto* text = std::get_if<std::string>(&answer.value)) return *text;
  return {{"error", answer.error}};
}

json to_json(const Answers& answers, const Redactor& redact) {
  json out = json::object();
  for (const auto& [question, answer] : answers) {
    out[question] = to_json(answer);
    if (out[question].is_string()) out[question] = redact(out[question].get<std::string>());
  }
  return out;
}

json to_json(const GpuDriverAnswers& driver, const Redactor& redact) {
  json out = {{"state", name_of(kStates, driver.state)}};
  if (!driver.library.empty()) out["library"] = redact(driver.library);
  if (!driver.reason.empty()) out["reason"] = redact(driver.reason);
  if (driver.error != 0) out["error"] = driver.error;
  if (!driver.system.empty()) out["system"] = to_json(driver.system, redact);
  for (const Answers& device : driver.devices) out["devices"].push_back(to_json(device, redact));
  for (const std::vector<GpuProcess>& processes : driver.processes) {
    json of_device = json::array();
    for (const GpuProcess& process : processes) {
      json item = {{"pid", process.pid}, {"compute", process.compute}};
      if (process.bytes) item["bytes"] = *process.bytes;
      of_device.push_back(std::move(item));
    }
    out["processes"].push_back(std::move(of_device));
  }
  return out;
}

// As lines if a text has several, so that two recordings can be compared by eye; otherwise the text.
json lines_of(const std::string& text) {
  if (text.empty() || text.back() != '\n') return text;
  json lines = json::array();
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines.size() == 1 ? json(text) : lines;
}

}  // namespace

std::unique_ptr<Source> recorded_source(std::string_view text, const std::string& name) {
  return std::make_unique<Replay>(Reader(name).read(text));
}

struct Recorder::Record {
  Contents contents;
  bool asked_nvml = false, asked_cuda = false;
};

Recorder::Recorder(Source& inner) : inner_(inner), record_(std::make_unique<Record>()) {}
Recorder::~Recorder() = default;

std::optional<std::string> Recorder::read(const std::string& path, size_t limit) {
  std::optional<std::string> text = inner_.read(path, limit);
  if (text && !Redactor::secret_path(path)) {
    std::string& kept = record_->contents.files[path];
    if (text->size() >= kept.size()) kept = *text;
  }
  return text;
}

std::vector<std::string> Recorder::list(const std::string& folder) {
  std::vector<std::string> names = inner_.list(folder);
  if (!names.empty()) record_->contents.folders[folder].insert(names.begin(), names.end());
  return names;
}

std::optional<std::string> Recorder::link(const std::string& path) {
  std::optional<std::string> target = inner_.link(path);
  if (target) record_->contents.links[path] = *target;
  return target;
}

Access Recorder::access(const std::string& path) {
  const Access answer = inner_.access(path);
  if (answer != Access::absent) record_->contents.access[path] = answer;
  return answer;
}

std::optional<Space> Recorder::space(const std::string& path) {
  const std::optional<Space> answer = inner_.space(path);
  if (answer) record_->contents.space[path] = *answer;
  return answer;
}

std::optional<std::string> Recorder::variable(const std::string& name) {
  std::optional<std::string> value = inner_.variable(name);
  if (value) record_->contents.variables[name] = *value;
  return value;
}

std::string Recorder::architecture() { return record_->contents.architecture = inner_.architecture(); }

GpuDriverAnswers Recorder::nvml() {
  if (!std::exchange(record_->asked_nvml, true)) record_->contents.nvml = inner_.nvml();
  return record_->contents.nvml;
}

GpuDriverAnswers Recorder::cuda() {
  if (!std::exchange(record_->asked_cuda, true)) record_->contents.cuda = inner_.cuda();
  return record_->contents.cuda;
}

std::optional<std::vector<std::string>> Recorder::kernel_log(const std::vector<std::string>& words) {
  std::optional<std::vector<std::string>> lines = inner_.kernel_log(words);
  if (lines) {
    if (!record_->contents.kernel_log) record_->contents.kernel_log.emplace();
    for (const std::string& line : *lines) {
      std::vector<std::string>& kept = *record_->contents.kernel_log;
      if (std::find(kept.begin(), kept.end(), line) == kept.end()) kept.push_back(line);
    }
  }
  return lines;
}

Redactor redactor_of(Source& source) {
  std::vector<std::string> names;
  for (const char* name : {"USER", "LOGNAME", "SUDO_USER", "HOSTNAME"}) {
    if (const auto value = source.variable(name)) names.push_back(*value);
  }
  if (const auto host = read_word(source, "/proc/sys/kernel/hostname")) names.push_back(*host);
  return Redactor(std::move(names));
}

std::string Recorder::json() const {
  const Contents& c = record_->contents;
  const Redactor redact = redactor_of(inner_);

  nlohmann::json out = {{"sparkpilot_record", kRecordVersion}, {"sparkpilot", SPARKPILOT_VERSION}};
  if (!c.architecture.empty()) out["architecture"] = c.architecture;
  for (const auto& [path, text] : c.files) out["files"][redact(path)] = lines_of(redact(text));
  for (const auto& [path, target] : c.links) out["links"][redact(path)] = redact(target);
  for (const auto& [path, entries] : c.folders) {
    for (const std::string& entry : entries) out["folders"][redact(path)].push_back(redact(entry));
  }
  for (const auto& [path, access] : c.access) out["access"][redact(path)] = name_of(kAccess, access);
  for (const auto& [path, space] : c.space) {
    out["space"][redact(path)] = {{"total_bytes", space.total_bytes}, {"free_bytes", space.free_bytes}};
  }
  for (const auto& [name, value] : c.variables) out["variables"][name] = redact(value);
  if (c.kernel_log) {
    out["kernel_log"] = nlohmann::json::array();
    for (const std::string& line : *c.kernel_log) out["kernel_log"].push_back(redact(line));
  }
  if (c.nvml.state != GpuDriverAnswers::State::absent) out["nvml"] = to_json(c.nvml, redact);
  if (c.cuda.state != GpuDriverAnswers::State::absent) out["cuda"] = to_json(c.cuda, redact);
  return json_text(out, 1) + "\n";
}

}  // namespace sparkpilot
