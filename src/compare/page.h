// The page of a comparison of drives: tables, plots over one time axis, the worst moments as pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/driving.h"
#include "compare/film.h"
#include "route/draw/page.h"
#include "route/log/model_compare.h"

namespace sparkpilot::compare {

// A drive beside the first one.
struct ComparedDrive {
  const Drive* drive = nullptr;
  DrivingTerms terms;
  std::vector<FrameTerms> worst;                      // worst_moments()
  Film film;                                          // with the pictures of `worst`
  std::string film_file = {};                         // beside the page; empty: none
  std::optional<drive::ModelComparison> fields = {};  // every field of the messages, if that is asked for
};

struct ComparisonPage {
  const Drive* first = nullptr;
  std::vector<ComparedDrive> others;
  std::vector<std::vector<std::string>> speed = {};  // a table's headings and rows; empty: nothing was timed
  std::vector<std::string> beyond = {};              // limits that do not hold
  std::vector<std::string> notes = {};
  std::string version;

  std::vector<const Drive*> drives() const;  // the first, then the others
};

// One HTML file that needs nothing else but the films that it links to.
std::string to_html(const ComparisonPage& page);

// Headings, then rows; nothing if there are no rows.
void add_table(drive::Page& page, const std::vector<std::vector<std::string>>& table, const std::string& caption = {});

// Numbers for people: three digits; "-" for none.
std::string to_text(const std::optional<double>& value);
// Headings, then a row for each term; and for each decision.
std::vector<std::vector<std::string>> terms_table(const DrivingTerms& terms);
std::vector<std::vector<std::string>> decisions_table(const DrivingTerms& terms);
// Headings, then a row for each drive: its plan against the path that was driven. Empty if no drive has that.
std::vector<std::vector<std::string>> against_drive_table(const std::vector<const Drive*>& drives);

}  // namespace sparkpilot::compare
