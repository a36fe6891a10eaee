#include "drive/reference.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace sparkpilot::drive {

namespace fs = std::filesystem;

void Reference::add(const fs::path& log, std::vector<std::string>* notes) {
  auto more = read_models(log, notes);
  models.insert(models.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  for (DriverRecord& driver : read_drivers(log)) drivers.push_back(std::move(driver));
}

Reference read_reference(const std::string& from, const Route& route, const Tolerances& tolerances,
                         const std::function<void(const std::string&)>& note) {
  Reference out{from, {}, {}, tolerances};
  std::vector<std::string> notes;
  if (from == "recorded") {
    for (const Segment& segment : route.segments) {
      if (!route.log(segment).empty()) out.add(route.log(segment), &notes);
    }
  } else {
    if (!fs::exists(from)) fail("{}: no such path; expected a run's folder, a log, or the word recorded", from);
    if (fs::is_directory(from)) {
      const std::string other = find_route(from).name;
      if (other != route.name && note) note(fmt::format("the reference is of {}, this route is {}", other, route.name));
    }
    out.add(from, &notes);
  }
  if (out.models.empty()) fail("{}: holds no modelV2", from);
  if (note) std::for_each(notes.begin(), notes.end(), note);
  return out;
}

ReferenceReport compare_with_reference(Reference reference, const DriveOptions& options,
                                       const std::vector<SegmentResult>& segments) {
  Reference ours;
  const bool model = !options.models.vision.empty() || !options.models.supercombo.empty();
  for (const SegmentResult& segment : segments) {
    if (segment.frames.empty()) continue;
    if (model) {
      ours.add(options.out / segment.name / "rlog.zst", nullptr);
      continue;
    }
    Reference recorded;
    recorded.add(segment.log, nullptr);
    for (ModelRecord& record : recorded.models) {
      const bool drawn = std::any_of(segment.frames.begin(), segment.frames.end(),
                                     [&](const FrameResult& f) { return f.frame_id == record.frame_id; });
      if (drawn) ours.models.push_back(std::move(record));
    }
  }
  ReferenceReport out;
  out.name = reference.name;
  out.comparison = compare_models(ours.models, reference.models, reference.tolerances);
  compare_drivers(ours.drivers, reference.drivers, reference.tolerances, out.comparison);
  out.ours = std::move(ours.models);
  out.theirs = std::move(reference.models);
  return out;
}

}  // namespace sparkpilot::drive
