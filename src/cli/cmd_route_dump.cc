// sparkpilot route dump: every event of one kind, as JSON lines or CSV.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "route/log/print.h"
#include "route/log/reader.h"
#include "route/log/route.h"

namespace sparkpilot::cli {
namespace {

struct DumpFlags {
  std::string route;
  std::string kind, fields;
  int64_t limit = 0;
  bool csv = false, whole_data = false;
};

std::vector<std::string> split_fields(const std::string& text) {
  std::vector<std::string> fields;
  for (size_t begin = 0; !text.empty() && begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    fields.push_back(text.substr(begin, comma - begin));
    if (std::count(fields.begin(), fields.end(), fields.back()) > 1) fail("--fields: {} is given twice", fields.back());
    begin = comma + 1;
  }
  return fields;
}

// How many events of each kind there are.
using Counts = std::map<std::string, int64_t>;

// "carState (579), modelV2 (31); and without a schema here procLog (12)"
std::string counts_text(const Counts& counts) {
  const std::vector<std::string> printable = drive::printable_kinds();
  std::string lists[2];
  for (const auto& [kind, count] : counts) {
    std::string& list = lists[std::find(printable.begin(), printable.end(), kind) == printable.end() ? 1 : 0];
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", kind, count);
  }
  if (lists[1].empty()) return lists[0];
  return fmt::format("{}{}without a schema here {}", lists[0], lists[0].empty() ? "" : "; and ", lists[1]);
}

// Counts over whole logs; damage ends a log, as it does when printing.
Counts count_kinds(const Program& program, const std::vector<std::string>& logs) {
  Progress bar(!program.quiet, "counting");
  Counts counts;
  std::optional<Error> refused;
  for (size_t i = 0; i < logs.size(); ++i) {
    try {
      drive::LogReader reader(logs[i]);
      while (reader.next()) {
        ++counts[drive::event_kind(reader.event())];
        constexpr int64_t kEach = 4096;
        if (reader.events() % kEach == 0)
          bar.at((static_cast<double>(i) + reader.done()) / static_cast<double>(logs.size()));
      }
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user) throw;
      if (!refused) refused = error;
    }
  }
  if (counts.empty() && refused) throw Error(*refused);
  return counts;
}

[[noreturn]] void refuse_kind(const Program& program, const std::string& kind, const std::vector<std::string>& logs) {
  const Counts counts = count_kinds(program, logs);
  fail("no event is of the kind \"{}\"{}; {}", kind, did_you_mean(kind, drive::event_kinds()),
       counts.empty() ? "the route holds no event" : "the route holds " + counts_text(counts));
}

class Dump {
 public:
  Dump(const Program& program, const DumpFlags& flags)
      : program_(program),
        kind_(flags.kind),
        limit_(flags.limit),
        printer_(flags.kind, {split_fields(flags.fields), flags.csv, flags.whole_data}) {}

  // Reports a faulty log and goes on: the next segment may be intact.
  void read(const std::string& log, const std::function<void(double)>& progress) {
    try {
      drive::LogReader reader(log);
      if (!std::exchange(opened_, true)) write(printer_.heading());
      read(reader, progress);
      if (!reader.damage().empty()) say(fmt::format("{}: {}", log, reader.damage()));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::user) throw;
      if (!refused_) refused_ = error;
      else say(error.what());
    }
  }

  // If no log could be read, fails with the first one's error.
  void finish() {
    if (refused_ && !opened_) throw Error(*refused_);
    if (refused_) say(refused_->what());
    if (lines_ + damaged_ == 0) {
      say(kinds_.empty() ? "no event is there"
                         : fmt::format("no event is of the kind {}; the route holds {}", kind_, counts_text(kinds_)));
    }
    if (damaged_ > 0) say(fmt::format("{} damaged events are left out", damaged_));
  }

  bool full() const { return limit_ > 0 && lines_ == limit_; }
  void say(const std::string& text) const {
    if (!program_.quiet) note(text);
  }

 private:
  // A terminal does not obey what a log holds.
  static void write(const std::string& text) {
    if (isatty(STDOUT_FILENO)) print(text);
    else print_data(text);
  }

  void read(drive::LogReader& reader, const std::function<void(double)>& progress) {
    std::string text;
    while (!full() && reader.next()) {
      constexpr int64_t kEach = 4096;
      if (reader.events() % kEach == 0) progress(reader.done());
      if (!printer_.takes(reader.event())) {
        if (lines_ == 0) ++kinds_[drive::event_kind(reader.event())];
        continue;
      }
      ++(printer_.print(reader.event(), text) ? lines_ : damaged_);
      constexpr size_t kPiece = 1 << 16;
      if (text.size() < kPiece) continue;
      write(text);
      text.clear();
    }
    write(text);
  }

  const Program& program_;
  std::string kind_;
  int64_t limit_, lines_ = 0, damaged_ = 0;
  Counts kinds_;  // kinds in the logs, counted until the first event of the kind asked for
  drive::EventPrinter printer_;
  std::optional<Error> refused_;  // the first log that could not be read
  bool opened_ = false;
};

std::vector<std::string> logs_of(const Program& program, const DumpFlags& flags) {
  std::vector<std::string> logs;
  for (const auto& log : drive::logs_of(drive::find_routes(flags.route, {program.settings["data"].value}), flags.route,
                                        [&](const std::string& text) {
                                          if (!program.quiet) note(text);
                                        })) {
    logs.push_back(log.string());
  }
  return logs;
}

int dump(const Program& program, const DumpFlags& flags) {
  if (flags.csv && program.json) fail("--csv and --json exclude each other");
  expect_at_least("--limit", flags.limit, 0);
  if (!drive::is_kind(flags.kind)) refuse_kind(program, flags.kind, logs_of(program, flags));
  Dump dump(program, flags);
  const std::vector<std::string> logs = logs_of(program, flags);
  {
    // No bar if lines go to the terminal: it would break them up.
    Progress bar(!program.quiet && !isatty(STDOUT_FILENO), "reading");
    for (size_t i = 0; i < logs.size() && !dump.full(); ++i) {
      dump.read(logs[i],
                [&](double done) { bar.at((static_cast<double>(i) + done) / static_cast<double>(logs.size())); });
    }
  }
  dump.finish();
  return kDone;
}

}  // namespace

void add_route_dump(Program& program, Command group) {
  const auto flags = std::make_shared<DumpFlags>();
  const Command command =
      add_command(program, group, "dump", "print every event of one kind, as JSON lines or CSV",
                  "  sparkpilot route dump carState /data/route --fields vEgo,cruiseState.speed --csv > speed.csv\n"
                  "  sparkpilot route dump modelV2 /data/route --limit 1\n"
                  "  sparkpilot route dump liveCalibration qlog.bz2 --fields 'rpyCalib[1],calStatus'\n"
                  "  sparkpilot route dump onroadEvents /data/route          why it engaged, warned and disengaged\n"
                  "Events come in the order of the file, which is not exactly that of their times.",
                  [&program, flags] { return dump(program, *flags); });
  command.add_option("kind", flags->kind, "kind of event, such as carState").required().type_name("TYPE");
  add_route_flags(program, command, flags->route);
  command.add_option("--fields", flags->fields, "only these, with commas between: a.b,c[0]")
      .type_name("LIST")
      .default_str("");
  add_number(command, "--limit", flags->limit, "at most this number of events; 0: all");
  command.add_flag("--csv", flags->csv, "a column for each number or text; a list is one column of JSON");
  command.add_flag("--json", program.json, "one JSON document per line, the default");
  command.add_flag("--whole-data", flags->whole_data,
                   "print data of more than 64 bytes (pictures) as base64, not only its size");
  command.add_flag("-q,--quiet", program.quiet, "no progress and no notes on stderr");
}

}  // namespace sparkpilot::cli
