#include "stack/diff.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

namespace sparkpilot::stack {
namespace {

using Key = std::tuple<std::string, std::string, int>;  // component, file, number among several

std::map<Key, const Library*> by_name(const Audit& audit) {
  std::map<Key, const Library*> index;
  std::map<std::pair<std::string, std::string>, int> seen;
  for (const Library& library : audit.libraries) {
    std::string file = library.path.substr(library.path.find_last_of("/!") + 1);
    if (const size_t so = file.find(".so"); so != std::string::npos) file.resize(so + 3);
    const int which = seen[{library.component, file}]++;
    index[{library.component, file, which}] = &library;
  }
  return index;
}

std::set<std::string> targets_of(const Library* library) {
  std::set<std::string> targets;
  if (!library) return targets;
  for (const CodeGroup& group : library->code.groups) targets.insert(group.target.str());
  for (const CodeTarget& target : library->compiles_for) targets.insert(target.str());
  return targets;
}

Difference difference(const Key& key, const Library* a, const Library* b) {
  Difference one{a, b, std::get<0>(key), std::get<1>(key), {}, {}};
  const std::set<std::string> before = targets_of(a), after = targets_of(b);
  std::set_difference(after.begin(), after.end(), before.begin(), before.end(), std::back_inserter(one.gained));
  std::set_difference(before.begin(), before.end(), after.begin(), after.end(), std::back_inserter(one.lost));
  return one;
}

bool same(const Difference& one) {
  return one.a && one.b && one.gained.empty() && one.lost.empty() && one.a->version == one.b->version &&
         one.a->machine == one.b->machine;
}

}  // namespace

std::vector<Difference> compare(const Audit& a, const Audit& b) {
  const auto first = by_name(a), second = by_name(b);
  std::map<Key, std::pair<const Library*, const Library*>> both;
  for (const auto& [key, library] : first) both[key].first = library;
  for (const auto& [key, library] : second) both[key].second = library;
  std::vector<Difference> list;
  for (const auto& [key, pair] : both) {
    Difference one = difference(key, pair.first, pair.second);
    if (!same(one)) list.push_back(std::move(one));
  }
  return list;
}

}  // namespace sparkpilot::stack
