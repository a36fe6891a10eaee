#include "ops/registry.h"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace sparkpilot {

#define SPARKPILOT_OPS(file)      \
  namespace file##_ops {          \
    std::span<const OpDef> all(); \
  }
#include "ops/list.inc"
#undef SPARKPILOT_OPS

namespace {

struct Table {
  std::vector<const OpDef*> all;
  std::unordered_map<std::string, std::vector<const OpDef*>> by_name;  // versions, newest first

  Table() {
    const auto take = [&](std::span<const OpDef> ops) {
      for (const OpDef& op : ops) {
        all.push_back(&op);
        by_name[qualified(op)].push_back(&op);
      }
    };
#define SPARKPILOT_OPS(file) take(file##_ops::all());
#include "ops/list.inc"
#undef SPARKPILOT_OPS
    for (auto& [name, versions] : by_name) {
      std::sort(versions.begin(), versions.end(), [](const OpDef* a, const OpDef* b) { return a->since > b->since; });
    }
  }
};

const Table& table() {
  static const Table instance;
  return instance;
}

}  // namespace

const OpDef* find_op(std::string_view domain, std::string_view name, int opset) {
  std::string key(domain == "ai.onnx" ? "" : domain);
  if (!key.empty()) key += "::";
  key += name;
  const auto found = table().by_name.find(key);
  if (found == table().by_name.end()) return nullptr;
  for (const OpDef* op : found->second) {
    if (op->since <= opset) return op;
  }
  return nullptr;
}

std::vector<const OpDef*> all_ops() { return table().all; }

}  // namespace sparkpilot
