#include "stack/audit_json.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace sparkpilot::stack {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json names_of(const std::vector<CodeTarget>& targets) {
  Json list = Json::array();
  for (const CodeTarget& target : targets) list.push_back(target.str());
  return list;
}

Json json_groups(const GpuCode& code) {
  Json list = Json::array();
  for (const CodeGroup& group : code.groups) {
    list.push_back({{"section", group.section},
                    {"target", group.target.str()},
                    {"bare", group.bare},
                    {"images", group.images},
                    {"compressed_images", group.compressed},
                    {"bytes", group.bytes},
                    {"unpacked_bytes", group.unpacked_bytes}});
  }
  return list;
}

Json json_mixes(const GpuCode& code) {
  Json list = Json::array();
  for (const CodeMix& mix : code.mixes) list.push_back({{"targets", names_of(mix.targets)}, {"count", mix.containers}});
  return list;
}

Json json_verdict(const Verdict& verdict) {
  return {{"standing", name_of(verdict.standing)}, {"native_containers", verdict.native},
          {"family_containers", verdict.family},   {"jit_containers", verdict.jit},
          {"unusable_containers", verdict.none},   {"jit_bytes", verdict.jit_bytes},
          {"cost", or_null(verdict.cost)}};
}

Json json_library(const Library& library, const std::optional<NamedGpu>& target) {
  const GpuCode& code = library.code;
  Json object{{"component", or_null(library.component)},
              {"path", library.path},
              {"package", or_null(library.package)},
              {"version", or_null(library.version)},
              {"version_from", or_null(library.version_from)},
              {"machine", or_null(library.machine)},
              {"soname", or_null(library.soname)},
              {"build_id", or_null(library.build_id)},
              {"needed", library.needed},
              {"run_path", library.run_path},
              {"stripped", library.stripped},
              {"file_bytes", library.bytes},
              {"gpu_code", json_groups(code)},
              {"containers", json_mixes(code)},
              {"damaged_containers", code.damaged},
              {"ptx_version", code.ptx_major > 0 ? Json(fmt::format("{}.{}", code.ptx_major, code.ptx_minor)) : Json()},
              {"compiles_for", names_of(library.compiles_for)},
              {"damage", library.damage},
              {"trouble", or_null(library.trouble)}};
  if (target) object["verdict"] = json_verdict(judge(library, target->capability, target->machine));
  return object;
}

// --- reading

using Plain = nlohmann::json;

std::string text_at(const Plain& object, const char* key) {
  const Plain& value = object.at(key);
  return value.is_null() ? std::string() : value.get<std::string>();
}

// A count, bounded so that sums cannot overflow.
int64_t count_at(const Plain& object, const char* key) {
  constexpr int64_t kMax = int64_t{1} << 44;
  const auto count = object.at(key).get<int64_t>();
  if (count < 0 || count > kMax) fail("{}: expected 0 to {}, got {}", key, kMax, count);
  return count;
}

std::vector<CodeTarget> targets_at(const Plain& list) {
  std::vector<CodeTarget> targets;
  for (const Plain& name : list) {
    const auto target = parse_target(name.get_ref<const std::string&>());
    if (!target) fail("\"{}\" is no target of GPU code", name.get<std::string>());
    targets.push_back(*target);
  }
  return targets;
}

GpuCode read_code(const Plain& object) {
  GpuCode code;
  for (const Plain& group : object.at("gpu_code")) {
    const auto target = targets_at(Plain::array({group.at("target")})).front();
    code.groups.push_back({group.at("section"), target, group.at("bare"), count_at(group, "images"),
                           count_at(group, "compressed_images"), count_at(group, "bytes"),
                           count_at(group, "unpacked_bytes")});
  }
  for (const Plain& mix : object.at("containers"))
    code.mixes.push_back({targets_at(mix.at("targets")), count_at(mix, "count")});
  code.damaged = count_at(object, "damaged_containers");
  const std::string ptx = text_at(object, "ptx_version");
  if (const size_t dot = ptx.find('.'); dot != std::string::npos) {
    code.ptx_major = std::atoi(ptx.c_str());
    code.ptx_minor = std::atoi(ptx.c_str() + dot + 1);
  }
  return code;
}

Library read_library(const Plain& object) {
  Library library;
  library.component = text_at(object, "component");
  library.path = text_at(object, "path");
  library.package = text_at(object, "package");
  library.version = text_at(object, "version");
  library.version_from = text_at(object, "version_from");
  library.machine = text_at(object, "machine");
  library.soname = text_at(object, "soname");
  library.build_id = text_at(object, "build_id");
  library.needed = object.at("needed").get<std::vector<std::string>>();
  library.run_path = object.at("run_path").get<std::vector<std::string>>();
  library.stripped = object.at("stripped");
  library.bytes = count_at(object, "file_bytes");
  library.code = read_code(object);
  library.compiles_for = targets_at(object.at("compiles_for"));
  library.damage = object.at("damage").get<std::vector<std::string>>();
  library.trouble = text_at(object, "trouble");
  return library;
}

}  // namespace

std::vector<std::string_view> absent_components(const Audit& audit) {
  std::vector<std::string_view> absent;
  for (const std::string_view component : core_components()) {
    const bool there = std::any_of(audit.libraries.begin(), audit.libraries.end(),
                                   [&](const Library& library) { return library.component == component; });
    if (!there) absent.push_back(component);
  }
  return absent;
}

Json json_gpu(const std::optional<NamedGpu>& gpu) {
  if (!gpu) return {};
  return {{"name", gpu->name}, {"compute_capability", text_of(gpu->capability)}, {"machine", or_null(gpu->machine)}};
}

Json audit_json(const Audit& audit, const std::optional<NamedGpu>& target) {
  Json libraries = Json::array();
  for (const Library& library : audit.libraries) libraries.push_back(json_library(library, target));
  return {{"gpu", json_gpu(target)},
          {"own_gpu", json_gpu(audit.gpu)},
          {"own_machine", or_null(audit.machine)},
          {"places", audit.places},
          {"libraries", libraries},
          {"other_libraries", audit.others},
          {"absent", absent_components(audit)},
          {"notes", audit.notes}};
}

Audit read_audit_json(const std::string& text, const std::string& file) {
  try {
    const Plain document = Plain::parse(text);
    Audit audit;
    if (const Plain& gpu = document.at("own_gpu"); !gpu.is_null()) {
      audit.gpu = {text_at(gpu, "name"), parse_gpu(text_at(gpu, "compute_capability")).capability,
                   text_at(gpu, "machine")};
    }
    audit.machine = text_at(document, "own_machine");
    audit.places = document.at("places").get<std::vector<std::string>>();
    for (const Plain& library : document.at("libraries")) audit.libraries.push_back(read_library(library));
    audit.others = count_at(document, "other_libraries");
    audit.notes = document.at("notes").get<std::vector<std::string>>();
    return audit;
  } catch (const Plain::parse_error&) {
    fail("{}: no audit that stack audit --json wrote: it is not even JSON", file);
  } catch (const Plain::exception& error) {
    fail("{}: no audit that stack audit --json wrote: {}", file, json_fault(error));
  } catch (const Error& error) {
    fail("{}: no audit that stack audit --json wrote: {}", file, error.what());
  }
}

}  // namespace sparkpilot::stack
