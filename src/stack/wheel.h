// A Python package as a file: a zip archive whose members are read without unpacking the rest.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "stack/source.h"

namespace sparkpilot::stack {

class Wheel {
 public:
  // Fails (user) if it is not a zip archive.
  explicit Wheel(const InputFile& file);
  ~Wheel();
  Wheel(const Wheel&) = delete;
  Wheel& operator=(const Wheel&) = delete;

  struct Member {
    std::string name;
    uint64_t index = 0, bytes = 0;
  };
  const std::vector<Member>& members() const { return members_; }
  // A member's bytes, in a temporary file without a name; fails (user) if it is damaged or there is no room.
  std::unique_ptr<Source> unpack(const Member& member) const;
  // A small member's text; fails (user) above `limit` bytes.
  std::string text(const Member& member, uint64_t limit) const;

 private:
  struct Archive;
  template <typename Take>
  void read(const Member& member, Take take) const;

  std::string name_;
  std::unique_ptr<Archive> archive_;
  std::vector<Member> members_;
};

}  // namespace sparkpilot::stack
