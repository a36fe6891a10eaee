#include "runtime/tuning_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/fnv.h"
#include "base/json.h"
#include "hw/cpu.h"
#include "ir/op.h"

namespace sparkpilot {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLargest = 1 << 20;      // bytes
constexpr size_t kLongestKey = 1024;       // characters
constexpr size_t kLongestKernelName = 64;  // characters
constexpr size_t kLongestReason = 400;     // characters

class Hash {
 public:
  explicit Hash(bool whole = false) : whole_(whole) {}
  // Of many bytes, eight at a time.
  void contents(const void* data, size_t size) {
    constexpr size_t kWord = sizeof(uint64_t);
    uint64_t sum = size;
    const auto* const from = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i + kWord <= size; i += kWord) {
      uint64_t word = 0;
      std::memcpy(&word, from + i, kWord);
      sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
      sum ^= sum >> 29;
    }
    bytes(&sum, sizeof(sum));
    bytes(from + size / kWord * kWord, size % kWord);
  }
  void bytes(const void* data, size_t size) { fnv_.bytes(data, size); }
  void integer(int64_t i) { bytes(&i, sizeof(i)); }
  void text(std::string_view s) {
    integer(std::ssize(s));
    bytes(s.data(), s.size());
  }
  void shape(const Shape& s) {
    integer(s.rank());
    for (const int64_t size : s) integer(size);
  }
  void tensor(const Tensor& t) {
    constexpr int64_t kSmall = 256;  // bytes; shapes and scalars, whose contents decide what is computed
    integer(static_cast<int64_t>(t.dtype()));
    if (!t.present()) return;
    shape(t.shape());
    if (t.bytes() <= kSmall) bytes(t.raw(), static_cast<size_t>(t.bytes()));
    else if (whole_) contents(t.raw(), static_cast<size_t>(t.bytes()));
  }
  void attribute(const Attribute& attribute);
  void graph(const Graph& graph);
  std::string str() const { return fmt::format("{:016x}", fnv_.value()); }

 private:
  bool whole_;
  Fnv fnv_;
};

void Hash::attribute(const Attribute& attribute) {
  integer(static_cast<int64_t>(attribute.index()));
  std::visit(
      [this]<typename T>(const T& v) {
        if constexpr (std::is_same_v<T, std::string>) text(v);
        else if constexpr (std::is_same_v<T, Tensor>) tensor(v);
        else if constexpr (std::is_same_v<T, std::shared_ptr<const Graph>>) graph(*v);
        else if constexpr (std::is_arithmetic_v<T>) bytes(&v, sizeof(v));
        else {
          integer(std::ssize(v));
          for (const auto& each : v) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(each)>>) bytes(&each, sizeof(each));
            else text(each);
          }
        }
      },
      attribute);
}

void Hash::graph(const Graph& graph) {
  for (int i = 0; i < graph.value_count(); ++i) {
    const Value& v = graph.value(ValueId{i});
    integer(static_cast<int64_t>(v.kind));
    integer(static_cast<int64_t>(v.dtype));
    if (v.kind == ValueKind::constant || v.kind == ValueKind::state) tensor(v.constant);
    else if (v.kind == ValueKind::input && v.shape) shape(*v.shape);
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    text(qualified(*node.op));
    integer(node.op->since);
    for (const ValueId input : node.inputs) integer(input.index);
    for (const ValueId output : node.outputs) integer(output.index);
    for (const auto& [key, value] : node.attrs) {
      text(key);
      attribute(value);
    }
  }
  for (const Graph::Output& output : graph.outputs()) integer(output.value.index);
  for (const State& state : graph.states()) {
    integer(state.value.index);
    integer(state.next.index);
  }
}

}  // namespace

namespace {

bool is_plain(std::string_view text, size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
}

void read_checks(const Json& file, std::vector<std::pair<std::string, std::string>>& checks) {
  if (!file.contains("checks") || !file["checks"].is_object()) return;
  for (const auto& [key, value] : file["checks"].items()) {
    if (checks.size() == TuningFile::kMaxChecks) return;
    if (!is_plain(key, kLongestKey) || !value.is_string()) continue;
    if (is_plain(value.get_ref<const std::string&>(), kLongestReason)) checks.emplace_back(key, value);
  }
}

}  // namespace

TuningFile::TuningFile(std::filesystem::path path, std::string cpu) : path_(std::move(path)), cpu_(std::move(cpu)) {
  read();
}

void TuningFile::read() {
  threads_.clear();
  kernels_.clear();
  checks_.clear();
  ignored_.clear();
  std::error_code error;
  if (path_.empty() || !std::filesystem::exists(path_, error)) return;
  Json file;
  try {
    file = parse_json_or_discard(read_file(path_, kLargest));
  } catch (const Error& problem) {
    ignored_ = problem.what();
    return;
  }
  const auto says = [&](const char* key, const std::string& value) {
    return file.contains(key) && file[key].is_string() && file[key].get_ref<const std::string&>() == value;
  };
  const auto is_object = [&](const char* key) { return file.contains(key) && file[key].is_object(); };
  if (!file.is_object() || !is_object("threads") || (file.contains("kernels") && !is_object("kernels"))) {
    ignored_ = "it is damaged";
  } else if (!says("sparkpilot", SPARKPILOT_VERSION)) {
    ignored_ = "another version wrote it";
  } else if (!says("cpu", cpu_)) {
    ignored_ = "it was measured on another processor";
  }
  if (!ignored_.empty()) {
    ignored_ = fmt::format("{} is not used: {}", path_.string(), ignored_);
    return;
  }
  for (const auto& [key, value] : file["threads"].items()) {
    const int64_t threads = value.is_number_integer() ? value.get<int64_t>() : 0;
    if (threads >= 1 && threads <= cpu_features().logical) threads_.emplace_back(key, static_cast<int>(threads));
  }
  read_checks(file, checks_);
  if (!file.contains("kernels")) return;
  for (const auto& [key, value] : file["kernels"].items()) {
    if (kernels_.size() == kMaxKernels) break;
    if (key.size() > kLongestKey || !value.is_string()) continue;
    const auto& name = value.get_ref<const std::string&>();
    if (!name.empty() && name.size() <= kLongestKernelName) kernels_.emplace_back(key, name);
  }
}

std::optional<int> TuningFile::threads(const std::string& key) const {
  for (const auto& [name, threads] : threads_) {
    if (name == key) return threads;
  }
  return std::nullopt;
}

bool TuningFile::keep_threads(const std::string& key, int threads) {
  read();
  std::erase_if(threads_, [&](const auto& entry) { return entry.first == key; });
  threads_.emplace_back(key, threads);
  if (threads_.size() > kMax) threads_.erase(threads_.begin(), threads_.end() - kMax);
  return write();
}

std::string TuningFile::check(const std::string& key) const {
  for (const auto& [name, found] : checks_) {
    if (name == key) return found;
  }
  return {};
}

bool TuningFile::keep_check(const std::string& key, const std::string& found) {
  if (!is_plain(key, kLongestKey) || !is_plain(found, kLongestReason)) return false;
  read();
  std::erase_if(checks_, [&](const auto& entry) { return entry.first == key; });
  checks_.emplace_back(key, found);
  if (checks_.size() > kMaxChecks) checks_.erase(checks_.begin(), checks_.end() - kMaxChecks);
  return write();
}

bool TuningFile::keep_kernels(const Kernels& found) {
  read();
  std::set<std::string_view> again;
  for (const auto& [key, name] : found) again.insert(key);
  std::erase_if(kernels_, [&](const auto& entry) { return again.contains(entry.first); });
  kernels_.insert(kernels_.end(), found.begin(), found.end());
  if (kernels_.size() > kMaxKernels) kernels_.erase(kernels_.begin(), kernels_.end() - kMaxKernels);
  return write();
}

bool TuningFile::is_writable() {
  read();
  return write();
}

bool TuningFile::write() {
  if (path_.empty()) return false;
  Json threads = Json::object();
  for (const auto& [key, count] : threads_) threads[key] = count;
  std::string text;
  for (;;) {
    Json kernels = Json::object();
    for (const auto& [key, name] : kernels_) kernels[key] = name;
    Json file{{"sparkpilot", SPARKPILOT_VERSION}, {"cpu", cpu_}, {"threads", threads}, {"kernels", kernels}};
    for (const auto& [key, found] : checks_) file["checks"][key] = found;
    text = json_text(file, 1) + "\n";
    if (std::ssize(text) <= kLargest || kernels_.empty()) break;
    kernels_.erase(kernels_.begin(), kernels_.begin() + (std::ssize(kernels_) + 1) / 2);  // the oldest half
  }
  try {
    make_folders(path_.parent_path());
    AtomicFile file(path_);
    file.write(text);
    file.commit();
  } catch (const Error&) {
    return false;
  }
  return true;
}

std::string tuning_key(const Graph& graph, const PassOptions& passes) {
  Hash hash;
  hash.graph(graph);
  hash.integer(static_cast<int64_t>(passes.precision));
  for (const std::string& pass : passes.off) hash.text(pass);
  for (const auto& [value, largest] : passes.largest) hash.text(fmt::format("{} {}", value, largest));
  hash.text(cpu_features().isa());
  hash.integer(cpu_features().logical);
  return hash.str();
}

std::string content_key(const Graph& graph, const PassOptions& passes, std::string_view also) {
  Hash hash(true);
  hash.graph(graph);
  hash.integer(static_cast<int64_t>(passes.precision));
  for (const std::string& pass : passes.off) hash.text(pass);
  for (const auto& [value, largest] : passes.largest) hash.text(fmt::format("{} {}", value, largest));
  hash.text(also);
  return hash.str();
}

}  // namespace sparkpilot
