// gpu_check.json damaged in any way: refused by field, and never the end of the program.
#include <algorithm>
#include <random>

#include "gpu_check_fixture.h"

namespace sparkpilot {
namespace gpu_check_file_test {

// A file with every part, some of them unfinished.
Json every_part(Json file) {
  const Json asked{{"filter", ""}, {"models", ""}, {"tiny", true}};
  const Json range{{"min", 1.0}, {"mean", 2}, {"max", nullptr}};
  Json& parts = file["parts"];
  parts["faults"] = {{"passed", false},
                     {"seconds", 1.5},
                     {"asked", asked},
                     {"failures", {"a"}},
                     {"go_on",
                      {{"next", 1},
                       {"items", {"a", "b"}},
                       {"failures", {"a"}},
                       {"figures", {{"checks", {{{"check", "a"}, {"found", 3}}}}}}}}};
  parts["sanitizer"] = {{"passed", false},
                        {"seconds", 1},
                        {"asked", asked},
                        {"failures", {"memcheck"}},
                        {"figures", {{"tools", {{{"tool", "memcheck"}, {"ended", "exit code 9"}, {"log", ""}}}}}}};
  parts["soak"] = {{"passed", true},
                   {"seconds", 1},
                   {"asked", asked},
                   {"failures", Json::array()},
                   {"figures",
                    {{"network", "n"},
                     {"precision", "fp16"},
                     {"seconds", 60.5},
                     {"pauses", {30}},
                     {"minutes",
                      {{{"seconds", 60},
                        {"runs", 9},
                        {"readings", 60},
                        {"temperature_c", range},
                        {"sm_clock_mhz", range},
                        {"power_w", range},
                        {"gpu_percent", range},
                        {"throttle_reasons", {"heat"}}}}}}}};
  return file;
}

// Its fields, as pointers, without what is kept as it comes.
void fields_of(const Json& value, const std::string& path, std::vector<std::string>& out) {
  if (path == "/machine" || path == "/versions" || path.ends_with("/found") || path.ends_with("/launches") ||
      (path.ends_with("/gpu") && path != "/gpu"))
    return;
  if (!path.empty()) out.push_back(path);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) fields_of(member, std::string(path).append("/").append(key), out);
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i) fields_of(value[i], path + "/" + std::to_string(i), out);
}

// "/parts/ops/failures/2" as messages have it: "parts.ops.failures[2]".
std::string shown(const std::string& path) {
  std::string out;
  std::istringstream words(path.substr(1));
  for (std::string word; std::getline(words, word, '/');) {
    if (word.find_first_not_of("0123456789") == std::string::npos) out += "[" + word + "]";
    else out += (out.empty() ? "" : ".") + word;
  }
  return out;
}

class GpuCheckFile : public GpuCheck {
 protected:
  void SetUp() override {
    GpuCheck::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(check("", "--parts words,ops,networks,limits,bench --filter Softmax,tiny_driving_policy_v"), 0) << said;
    write(every_part(results()).dump(1));
    ASSERT_EQ(table(), 0) << said;
  }
  // A table, or one line that names the file.
  int read(const std::string& what) {
    const int code = table();
    EXPECT_TRUE(code == 0 || code == 2) << what << ": exit code " << code << "\n" << said;
    if (code != 2) return code;
    EXPECT_TRUE(said.starts_with("gpu_check: " + (out / "gpu_check.json").string() + ": ")) << what << "\n" << said;
    EXPECT_EQ(said.find('\n'), said.size() - 1) << what << "\n" << said;
    EXPECT_EQ(said.find("json.exception"), std::string::npos) << what << "\n" << said;
    return code;
  }
};

TEST_F(GpuCheckFile, AFieldOfAnotherTypeIsNamed) {
  const Json whole = results();
  std::vector<std::string> fields;
  fields_of(whole, "", fields);
  ASSERT_GT(fields.size(), 300u);
  std::mt19937 random(1);
  std::shuffle(fields.begin(), fields.end(), random);
  fields.resize(200);
  for (const std::string& field : fields) {
    Json damaged = whole;
    Json& value = damaged[Json::json_pointer(field)];
    value = value.is_string()    ? Json(7)
            : value.is_boolean() ? Json("yes")
            : value.is_array()   ? Json::object()
            : value.is_object()  ? Json::array()
                                 : Json("fast");
    write(damaged.dump());
    EXPECT_EQ(read(field), 2) << field << "\n" << said;
    if (field == "/format") continue;  // then it is taken for another program's
    EXPECT_NE(said.find(": " + shown(field) + ": expected "), std::string::npos) << field << said;
  }
}

TEST_F(GpuCheckFile, WhatIsMissingOrContradictsIsRefused) {
  const Json whole = results();
  const auto refused = [&](const std::string& pointer, const Json& value, const std::string& line) {
    Json damaged = whole;
    if (value.is_discarded()) {
      const size_t slash = pointer.rfind('/');
      damaged[Json::json_pointer(pointer.substr(0, slash))].erase(pointer.substr(slash + 1));
    } else {
      damaged[Json::json_pointer(pointer)] = value;
    }
    write(damaged.dump());
    EXPECT_EQ(read(pointer), 2) << pointer;
    EXPECT_NE(said.find(": " + line), std::string::npos) << line << "\n" << said;
  };
  const Json gone(Json::value_t::discarded);
  refused("/parts/ops/passed", gone, "parts.ops.passed: is missing");
  refused("/parts/ops/failures", gone, "parts.ops.failures: is missing");
  refused("/parts/ops/figures/ops/0/kernels", gone, "parts.ops.figures.ops[0].kernels: is missing");
  refused("/parts/ops/figures", gone, "parts.ops: expected either figures or go_on");
  refused("/parts/faults/go_on", gone, "parts.faults: expected either figures or go_on");
  refused("/parts/faults/figures", Json::object(), "parts.faults: expected either figures or go_on");
  refused("/parts/faults/passed", true, "parts.faults.passed: is true, but the part is unfinished");
  refused("/parts/faults/go_on/next", 3, "parts.faults.go_on.next: is 3, beyond the items");
  refused("/parts/faults/go_on/figures/checks/0/check", gone, "parts.faults.go_on.figures.checks[0].check: is missing");
  refused("/parts/ops/passed", false, "parts.ops.passed: is false, with 0 failures");
  refused("/parts/sanitizer/passed", true, "parts.sanitizer.passed: is true, with 1 failures");
  refused("/parts/ops/figures/ops", Json::array(), "parts.ops.figures.ops: is empty, but the part has passed");
  refused("/parts/wheels", whole["parts"]["ops"], "parts.wheels: is not a known part");
  refused("/parts/ops/figures/speed", 1, "parts.ops.figures.speed: is not a known field");
  refused("/parts/ops/figures/ops/0/kernels/0/passed", -1,
          "parts.ops.figures.ops[0].kernels[0].passed: expected a whole");
  refused("/format_version", 2, "format_version: expected 1, got 2");
}

TEST_F(GpuCheckFile, NoDamageEndsTheProgram) {
  const std::string whole = text_of(out / "gpu_check.json");
  std::mt19937 random(2);
  const auto below = [&](size_t most) { return std::uniform_int_distribution<size_t>(0, most - 1)(random); };
  for (int i = 0; i < 60; ++i) {
    const size_t length = below(whole.size() - 1);
    write(whole.substr(0, length));
    EXPECT_EQ(read("cut at " + std::to_string(length)), 2) << length;
  }
  const std::string pieces[] = {"null", "-1", "1e999", "{}", "[]", "\"\"", "\xff", "99999999999999999999",
                                "\\",   ":",  ","};
  for (int i = 0; i < 240; ++i) {
    std::string text = whole;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, 1 + below(80)); break;
        case 2: text.insert(at, pieces[below(std::size(pieces))]); break;
        default: text.insert(at, text, below(text.size()), below(200)); break;
      }
    }
    write(text);
    read("damage " + std::to_string(i));
  }
  for (int depth : {1000, 200000}) {
    write(std::string(static_cast<size_t>(depth), '['));
    EXPECT_EQ(read("depth"), 2);
  }
}

}  // namespace gpu_check_file_test
}  // namespace sparkpilot
