// What a drive is compared with: another drive's logs, a log, or what the route's device recorded.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "drive/drive.h"
#include "drive/report.h"
#include "route/log/model_compare.h"
#include "route/log/model_record.h"
#include "route/log/route.h"

namespace sparkpilot::drive {

struct Reference {
  std::string name;
  std::vector<ModelRecord> models;
  std::vector<DriverRecord> drivers;
  Tolerances tolerances;

  // Appends the records of a log, or of each log of a folder; adds a note for a damaged one.
  void add(const std::filesystem::path& log, std::vector<std::string>* notes);
};

// `from`: a folder of results, a log, or "recorded" for the route's logs. Read it before a drive may overwrite it.
// Fails (user) if `from` does not exist or contains no modelV2.
Reference read_reference(const std::string& from, const Route& route, const Tolerances& tolerances,
                         const std::function<void(const std::string&)>& note);

// Compares with a reference the logs that a drive wrote or, if it ran no model, the recorded models of the frames it
// drew.
ReferenceReport compare_with_reference(Reference reference, const DriveOptions& options,
                                       const std::vector<SegmentResult>& segments);

}  // namespace sparkpilot::drive
