// sparkpilot zoo: the stand-in models.
#include "onnx/zoo.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/terminal.h"
#include "onnx/export.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kWarning =
    "Stand-ins have random weights: they are for speed and plumbing, their outputs mean nothing.";

int list_zoo(const Program& program) {
  Json models = Json::array();
  Table table({"model", "parameters", "multiply-adds", "contract", ""});
  for (const ZooEntry& entry : zoo()) {
    models.push_back({{"name", entry.name},
                      {"parameters", entry.parameters},
                      {"macs", entry.macs},
                      {"contract", entry.contract},
                      {"doc", entry.doc},
                      {"big", entry.big}});
    table.add({std::string(entry.name), human_count(static_cast<double>(entry.parameters)),
               human_count(static_cast<double>(entry.macs)), std::string(entry.contract), std::string(entry.doc)});
  }
  if (program.json) print_json({{"models", models}, {"note", kWarning}});
  else print(table.str() + "\n" + wrapped(kWarning, 0, stdout_columns()) + "\n");
  return kDone;
}

struct ZooFlags {
  std::vector<std::string> names;
  bool all = false;
  std::string out = ".";
  uint64_t seed = 1;
};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : zoo()) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> wanted_names(const ZooFlags& flags) {
  std::vector<std::string> names;
  for (const std::string& name : flags.names) {
    const ZooEntry* entry = find_zoo_entry(name);
    if (!entry) {
      fail("no model is named \"{}\"{}; zoo list prints them", name, did_you_mean(name, known_names()));
    }
    if (flags.all && !entry->big) fail("{}: --all builds it, too: name models, or give --all", name);
    names.push_back(name);
  }
  for (const ZooEntry& entry : zoo()) {
    const bool named = std::find(names.begin(), names.end(), entry.name) != names.end();
    if (flags.all && !entry.big && !named) names.emplace_back(entry.name);
  }
  if (names.empty()) fail("name the models to build, or give --all");
  return names;
}

// Stand-ins have the same names as openpilot's models, which could not be rebuilt if overwritten.
void refuse_to_replace_models(const std::vector<std::string>& names, const fs::path& folder) {
  for (const std::string& name : names) {
    const fs::path path = folder / (name + ".onnx");
    if (fs::is_regular_file(path) && !is_stand_in(path)) {
      fail("{}: exists and is not a stand-in: choose another folder, or remove it", path.string());
    }
  }
}

int build_zoo(const Program& program, const ZooFlags& flags) {
  const std::vector<std::string> names = wanted_names(flags);
  make_folders(flags.out);
  refuse_to_replace_models(names, flags.out);
  Json built = Json::array();
  Progress progress(!program.quiet, "");
  for (size_t i = 0; i < names.size(); ++i) {
    progress.what(names[i]);
    progress.at(static_cast<double>(i) / static_cast<double>(names.size()));
    const fs::path path = fs::path(flags.out) / (names[i] + ".onnx");
    save_onnx(build_zoo_model(names[i], flags.seed), path);
    const std::optional<int64_t> bytes = file_bytes(path.string());
    built.push_back({{"name", names[i]},
                     {"file", path.string()},
                     {"file_bytes", bytes ? Json(*bytes) : Json()},
                     {"seed", flags.seed}});
    if (!program.json) print(fmt::format("{}  {}\n", path.string(), bytes ? human_bytes(*bytes) : "-"));
  }
  if (program.json) print_json({{"models", built}, {"note", kWarning}});
  return kDone;
}

}  // namespace

void add_zoo(Program& program, Command app) {
  const Command group = app.add_group("zoo", "stand-ins for openpilot's models: same contract, random weights");
  group.footer("Examples:\n  sparkpilot zoo list\n  sparkpilot zoo build driving_vision --out models");
  const Command lister = add_command(program, group, "list", "print the models that can be built",
                                     "  sparkpilot zoo list", [&program] { return list_zoo(program); });
  lister.add_flag("--json", program.json, "print one JSON document on stdout");

  const auto flags = std::make_shared<ZooFlags>();
  const Command builder = add_command(program, group, "build", "write models as ONNX files",
                                      "  sparkpilot zoo build driving_vision driving_policy --out models\n"
                                      "  sparkpilot zoo build --all --out models        (all but the big one)",
                                      [&program, flags] { return build_zoo(program, *flags); });
  add_list(builder, "names", flags->names, "NAME", "models, by their names in zoo list");
  builder.add_flag("--all", flags->all, "every model that is not big");
  builder.add_option("--out", flags->out, "folder to write to; made if missing").type_name("DIR");
  add_number(builder, "--seed", flags->seed, "seed of the weights");
  add_report_flags(program, builder);
}

}  // namespace sparkpilot::cli
