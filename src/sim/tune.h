// The parameters with the least cost, by a grid, by chance or by CMA-ES. Every trial goes to a journal as soon as it is
// there, and a search that was ended goes on from it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sparkpilot::sim {

// A parameter and where it may lie; `logarithmic`: even in its logarithm, both ends above 0.
struct TuneRange {
  std::string name;
  double low = 0, high = 1;
  bool logarithmic = false;
  bool operator==(const TuneRange&) const = default;
};
// "ki=0.01:1" or "ki=0.01:1:log". Fails (user) on anything else.
TuneRange parse_range(std::string_view text);

enum class Search {
  grid,    // as many values of each parameter as the trials allow, ends included; with one value, the middle
  random,  // independent, even in the ranges
  cma_es,  // sim/cma_es.h, from the middle of the ranges with 0.3 of their width, folded back at their ends
};
std::string_view name(Search search);        // "grid", "random", "cma-es"
Search search_named(std::string_view name);  // fails (user) naming all

struct TuneOptions {
  Search search = Search::cma_es;
  std::vector<TuneRange> ranges;  // at least one, at most 100
  int64_t trials = 100;           // at most; 1 to 10 million
  uint64_t seed = 1;
  std::string objective;  // what costs are of, in words: a journal of another one is refused
};

struct Trial {
  std::vector<double> values;  // of the ranges, in their order
  std::optional<double> cost;  // empty: it could not be driven
};

struct TuneResult {
  std::vector<Trial> trials;
  std::optional<size_t> best;  // the first with the least cost
  int64_t resumed = 0;         // trials that came from the journal
  std::string ended;           // "trials", "stopped", "the grid is complete", or why CMA-ES ended
};

// `cost` is called once for each trial, one after the other; NaN and infinite costs count as none. `stop` ends the
// search after the trial at hand; `done` is called after each with the number of trials so far.
//
// `journal`: a line of JSON for the search, then one for each trial; empty: none. It is continued if it is there and
// `resume` is given. Fails (user) if it is there without `resume`, or is of another search, or cannot be read or
// written.
TuneResult tune(const TuneOptions& options, const std::function<double(const std::vector<double>&)>& cost,
                const std::filesystem::path& journal = {}, bool resume = false, const std::atomic<bool>* stop = nullptr,
                const std::function<void(int64_t)>& done = {});

// What a journal's text holds. Fails (user) naming the line where it is of another search, or no journal.
struct JournalText {
  std::vector<Trial> trials;
  int64_t bytes = 0;  // of whole lines; the last may have been cut when a process ended
};
JournalText parse_journal(const std::string& text, const TuneOptions& options, const std::string& name);
// Its first line, without the line's end.
std::string journal_head(const TuneOptions& options);

}  // namespace sparkpilot::sim
