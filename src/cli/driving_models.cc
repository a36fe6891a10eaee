#include "cli/driving_models.h"

#include <algorithm>

#include "base/error.h"
#include "drive/driver_model.h"

namespace sparkpilot::cli {

namespace fs = std::filesystem;

void add_driving_model_flags(Program& program, Command command, DrivingModelFlags& flags) {
  add_setting(program, command, "models", "folder with openpilot's models");
  command.add_option("--vision", flags.vision, "vision network, with --policy").type_name("FILE");
  command.add_option("--policy", flags.policy, "policy network, with --vision").type_name("FILE");
  command.add_option("--supercombo", flags.supercombo, "vision and policy in one network").type_name("FILE");
}

int driving_model_ways(const Program& program, const DrivingModelFlags& flags) {
  return (program.settings["models"].origin == Origin::flag) + !flags.supercombo.empty() +
         (!flags.vision.empty() || !flags.policy.empty());
}

void add_one_model_flag(Command command, std::string& file) {
  command.add_option("--model", file, "one network alone, of which the data set has the inputs and a teacher's answers")
      .type_name("FILE");
}

void expect_alone(const Program& program, const DrivingModelFlags& flags, const std::string& flag) {
  if (driving_model_ways(program, flags) == 0) return;
  fail("{} names the one model: give it without --models, --vision, --policy and --supercombo", flag);
}

drive::ModelFiles chosen_driving_model(const Program& program, const DrivingModelFlags& flags,
                                       const std::string& or_what) {
  const SettingValue& models = program.settings["models"];
  const int ways = driving_model_ways(program, flags);
  if (ways == 1 && flags.vision.empty() != flags.policy.empty()) {
    fail("{} is given without {}: the vision and the policy network go together",
         flags.vision.empty() ? "--policy" : "--vision", flags.vision.empty() ? "--vision" : "--policy");
  }
  if (ways > 1 || (ways == 0 && models.value.empty())) {
    fail("expected one of --models DIR, --supercombo FILE, {}--vision FILE with --policy FILE{}",
         or_what.empty() ? "or " : "", or_what.empty() ? "" : ", or " + or_what);
  }
  if (models.origin == Origin::flag || ways == 0) return drive::find_models(models.value);
  drive::ModelFiles files;
  files.vision = flags.vision;
  files.policy = flags.policy;
  files.supercombo = flags.supercombo;
  return files;
}

void add_calibrations_flag(Command command, std::vector<std::string>& files) {
  add_list(command, "--calibration", files, "FILE",
           "of --precision fp8: what `model calibrate` wrote for a network (repeatable); what its products read is "
           "rounded to 8 bits, too");
}

Calibrations::Calibrations(const std::vector<std::string>& files) {
  for (const std::string& file : files) all_.push_back({file, load_calibration(file)});
}

void Calibrations::give(drive::ModelFiles& models) {
  if (all_.empty()) return;
  for (const auto& [role, file] :
       {std::pair("supercombo", models.supercombo), std::pair("vision", models.vision),
        std::pair("policy", models.policy), std::pair(drive::kDriverMonitoring, models.driver_monitoring)}) {
    if (file.empty()) continue;
    const std::string hash = hash_text(file);  // of the whole file
    known_ += fmt::format("{}{} has {}", known_.empty() ? "" : ", ", file.string(), hash);
    for (OfFile& one : all_) {
      if (one.calibration.model != hash) continue;
      expect_values_of(file, one.calibration, one.file);
      if (!models.largest.emplace(role, one.calibration.largest).second) {
        fail("{}: a second calibration of {}", one.file, file.string());
      }
      one.used = true;
    }
  }
}

void Calibrations::expect_used() const {
  for (const OfFile& one : all_) {
    if (!one.used) fail("{}: was made for a model with the hash {}; {}", one.file, one.calibration.model, known_);
  }
}

}  // namespace sparkpilot::cli
