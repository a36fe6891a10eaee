// Route logs: which files a name means, and their events one after the other.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "pyroute/values.h"
#include "route/log/print.h"
#include "route/log/reader.h"
#include "route/log/route.h"

namespace sparkpilot::pyroute {
namespace {

class Log {
 public:
  explicit Log(const std::filesystem::path& path) : reader_(path) {}
  // `bytes` is kept.
  Log(py::object bytes, std::span<const std::byte> view)
      : bytes_(std::move(bytes)), reader_(source_of(view), "the log") {}

  // From here on only events of that kind; fails (user) if absent.
  void only(const std::string& kind) {
    kinds_ = drive::kinds_named(kind);
    if (kinds_->empty()) fail("no event is of the kind \"{}\"{}", kind, did_you_mean(kind, drive::event_kinds()));
  }

  Struct next() {
    const Use use(used_);
    while (true) {
      if (const Held message = look()) return {message, message->root()};
      if (ended_) throw py::stop_iteration();
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  const std::string& damage() const { return reader_.damage(); }

 private:
  static std::unique_ptr<drive::ByteSource> source_of(std::span<const std::byte> view) {
    return drive::memory_source(view);
  }

  // The next event that is wanted; null at the log's end, and after many that are not, so that Ctrl-C is noticed.
  Held look() {
    const python::WithoutLock without_lock;
    for (int i = 0; i < 4096; ++i) {
      ended_ = !reader_.next();
      if (ended_) return nullptr;
      const auto which = static_cast<size_t>(reader_.event().which());
      const bool wanted = !kinds_ || std::find(kinds_->begin(), kinds_->end(), which) != kinds_->end();
      if (wanted) return std::make_shared<Message>(reader_.message());
    }
    return nullptr;
  }

  py::object bytes_;
  drive::LogReader reader_;
  std::optional<std::vector<size_t>> kinds_;
  bool ended_ = false;
  std::atomic<bool> used_ = false;
};

}  // namespace

void bind_logs(py::module_& module) {
  py::class_<Log, std::shared_ptr<Log>>(module, "Log")
      .def(py::init([](const std::filesystem::path& path) {
        const python::WithoutLock without_lock;
        return std::make_shared<Log>(path);
      }))
      .def_static("of_bytes",
                  [](const py::bytes& bytes) {
                    const auto text = bytes.cast<std::string_view>();
                    return std::make_shared<Log>(bytes, std::as_bytes(std::span(text.data(), text.size())));
                  })
      .def("only", [](const std::shared_ptr<Log>& log, const std::string& kind) { log->only(kind); })
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", [](const std::shared_ptr<Log>& log) { return log->next(); })
      .def_property_readonly("damage", [](const std::shared_ptr<Log>& log) { return log->damage(); });
  module.def(
      "find_logs",
      [](const std::filesystem::path& name, const std::filesystem::path& data) {
        const python::WithoutLock without_lock;
        std::vector<std::string> notes;
        auto logs = drive::logs_of(drive::find_routes(name.string(), {data}), name.string(),
                                   [&](const std::string& note) { notes.push_back(note); });
        return std::make_pair(std::move(logs), std::move(notes));
      },
      py::arg("name"), py::arg("data"));
}

}  // namespace sparkpilot::pyroute
