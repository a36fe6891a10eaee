// Tables that fit the terminal.
#include <algorithm>

#include "cli/fit.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kMinText = 12, kMinOfAll = 4;  // minimum widths of text columns: usual, and as a last resort

struct Column {
  size_t index = 0, width = 0;
  size_t least = 0;                   // minimum width before columns move to a group below
  bool right = false, fixed = false;  // right: numbers; fixed: numbers and coloured cells, which are not cut
};

size_t total(const std::vector<Column>& columns) {
  size_t sum = kGap * (columns.size() - 1);
  for (const Column& column : columns) sum += column.width;
  return sum;
}

bool like_number(const std::string& cell) { return cell.empty() || cell == "-" || (cell[0] >= '0' && cell[0] <= '9'); }

Column measured(size_t index, const std::string& heading, const std::vector<std::vector<std::string>>& rows) {
  Column out{index, width_of(heading), 0, !rows.empty(), false};
  for (const auto& row : rows) {
    if (index >= row.size()) continue;
    out.width = std::max(out.width, width_of(row[index]));
    out.right = out.right && like_number(row[index]);
    out.fixed = out.fixed || row[index].find('\x1b') != std::string::npos;
  }
  out.fixed = out.fixed || out.right;
  out.least = out.fixed ? out.width : std::min(out.width, std::max(kMinText, width_of(heading)));
  return out;
}

// Narrows the widest columns first, none to less than its `least`; false if that is not enough.
template <typename Least>
bool narrow(std::vector<Column>& columns, size_t room, Least&& least) {
  while (total(columns) > room) {
    const auto widest = std::max_element(columns.begin(), columns.end(), [&](const Column& a, const Column& b) {
      return (a.width > least(a) ? a.width : 0) < (b.width > least(b) ? b.width : 0);
    });
    if (widest->width <= least(*widest)) return false;
    --widest->width;
  }
  return true;
}

// Splits columns into groups that fit `room`; each group begins with the first column.
std::vector<std::vector<Column>> side_by_side(const std::vector<Column>& columns, size_t room) {
  std::vector<std::vector<Column>> groups = {{}};
  size_t least = 0;
  for (const Column& column : columns) {
    if (groups.back().size() > 1 && least + kGap + column.least > room) {
      groups.push_back({columns[0]});
      least = columns[0].least;
    }
    least += (groups.back().empty() ? 0 : kGap) + column.least;
    groups.back().push_back(column);
  }
  return groups;
}

// `names`: width of the last parts of the first column's names, which have to be distinguishable in every group.
std::vector<std::vector<Column>> groups_of(std::vector<Column> columns, size_t names, size_t room) {
  auto groups = side_by_side(columns, room);
  if (groups.size() > 1 && !columns[0].fixed) {
    columns[0].least = std::min(columns[0].width, std::max(columns[0].least, std::min(names, room / 2)));
    groups = side_by_side(columns, room);
  }
  for (auto& group : groups) {
    if (narrow(group, room, [](const Column& column) { return column.least; })) continue;
    narrow(group, room, [](const Column& column) { return column.fixed ? column.width : kMinOfAll; });
  }
  return groups;
}

}  // namespace

std::string Table::str(int room) const {
  std::vector<Column> all;
  for (size_t c = 0; c < headings_.size(); ++c) all.push_back(measured(c, headings_[c], rows_));
  const auto wide = static_cast<size_t>(std::max(room, 0));
  const bool fits = room <= 0 || all.empty() || total(all) <= wide;
  size_t names = 0;
  for (const auto& row : rows_) names = row.empty() ? names : std::max(names, width_of(base_name(row[0])));
  const auto groups = fits ? std::vector<std::vector<Column>>{all} : groups_of(all, names, wide);
  std::string out;
  const auto line = [&](const std::vector<Column>& columns, const std::vector<std::string>& cells, bool heading) {
    std::string text;
    for (const Column& column : columns) {
      const std::string cell = column.index < cells.size() ? fitted(cells[column.index], column.width) : "";
      const std::string gap(column.width - std::min(column.width, width_of(cell)), ' ');
      text += column.right ? gap + cell : cell + gap;
      text += std::string(kGap, ' ');
    }
    text.resize(text.find_last_not_of(' ') + 1);
    out += heading ? painted(text, Paint::bold) : text;
    out += '\n';
  };
  for (const auto& columns : groups) {
    if (!out.empty()) out += '\n';
    line(columns, headings_, true);
    for (const auto& row : rows_) line(columns, row, false);
  }
  return out;
}

}  // namespace sparkpilot::cli
